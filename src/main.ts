#!/usr/bin/env node
// The entry: checks the version of Node before anything else is loaded, because static imports are linked first and an
// older Node fails there with a SyntaxError that names no version. Hence the dynamic import below, and nothing but
// syntax that every supported and unsupported Node parses.

/** `engines.node` of package.json; a test holds the two to each other. */
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
