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
// Compiling the program took a tenth of a second at each start. What was compiled lies in the user's cache folder, where no
// other user can leave code: Node's default folder is shared by all. Where it cannot be written, there is none.
if (import.meta.url.endsWith('.js')) {
  const [{ default: module }, { join }, { homedir }] = await Promise.all([
    import('node:module'),
    import('node:path'),
    import('node:os'),
  ])
  const { env, platform } = process
  const caches = () => {
    if (env['XDG_CACHE_HOME']) return env['XDG_CACHE_HOME']
    if (platform === 'win32' && env['LOCALAPPDATA']) return env['LOCALAPPDATA']
    return join(homedir(), platform === 'darwin' ? 'Library/Caches' : '.cache')
  }
  try {
    module.enableCompileCache(join(caches(), 'fillrate'))
  } catch {
    // A user without a home folder.
  }
}
await import('./process.ts')
