#!/usr/bin/env node
// Entry point: checks the version of Node before loading anything else. Static imports are linked first, where an older
// Node fails with a SyntaxError that names no version; hence the dynamic import, and only syntax that every Node parses.

/** Equals `engines.node` in package.json, by a test. */
const MINIMUM = [22, 22]

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
const [minimumMajor = 0, minimumMinor = 0] = MINIMUM
if (major < minimumMajor || (major === minimumMajor && minor < minimumMinor)) {
  process.stderr.write(
    `fillrate: Node ${MINIMUM.join('.')} or newer is required; this is ${process.versions.node} (${process.execPath}).\n`,
  )
  process.exit(2)
}
// Compiling the program took a tenth of a second at each start. What was compiled lies beside the program, where only those can
// write who could replace it: in Node's default folder, which all users share, another one could leave code. Where it cannot
// be written, as in the image, there is none.
if (import.meta.url.endsWith('.js')) {
  const [{ default: module }, { fileURLToPath }] = await Promise.all([
    import('node:module'),
    import('node:url'),
  ])
  module.enableCompileCache(fileURLToPath(new URL('../.cache', import.meta.url)))
}
await import('./process.ts')
