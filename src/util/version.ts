import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The version of the nearest package.json above that has one, and its folder; the built program is nested deeper than the source. */
function findPackage(): { readonly version: string; readonly folder: string } | null {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    const file = join(folder, 'package.json')
    if (existsSync(file)) {
      const { version } = JSON.parse(readFileSync(file, 'utf8')) as { version?: string }
      if (version !== undefined) return { version, folder }
    }
    if (folder === dirname(folder)) return null
  }
}

export const readVersion = (): string => findPackage()?.version ?? 'unknown'

/** Where this package is, with its examples; null: it is bundled. */
export const findPackageFolder = (): string | null => findPackage()?.folder ?? null
