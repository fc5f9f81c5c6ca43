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
await import('./process.ts')
