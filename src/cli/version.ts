import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** This program's version, from the package.json that is nearest above; the built program lies deeper than the source. */
export function version(): string {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    const file = join(folder, 'package.json')
    if (existsSync(file)) {
      const { version: found } = JSON.parse(readFileSync(file, 'utf8')) as { version?: string }
      if (found !== undefined) return found
    }
    if (folder === dirname(folder)) return 'unknown'
  }
}
