import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Reads the version from the nearest package.json above; the built program is nested deeper than the source. */
export function readVersion(): string {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    const file = join(folder, 'package.json')
    if (existsSync(file)) {
      const { version: found } = JSON.parse(readFileSync(file, 'utf8')) as { version?: string }
      if (found !== undefined) return found
    }
    if (folder === dirname(folder)) return 'unknown'
  }
}
