import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The version of the nearest package.json above that has one; the built program is nested deeper than the source. */
export function readVersion(): string {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    const file = join(folder, 'package.json')
    if (existsSync(file)) {
      const { version } = JSON.parse(readFileSync(file, 'utf8')) as { version?: string }
      if (version !== undefined) return version
    }
    if (folder === dirname(folder)) return 'unknown'
  }
}
