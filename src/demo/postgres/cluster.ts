import { randomBytes } from 'node:crypto'
import { appendFile, chmod, chown, cp, mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DemoError } from '../settings.ts'
import { type Binaries, binariesIn } from './binaries.ts'
import { type SystemAccount, runProgram } from './program.ts'

/** What a cluster is run with. */
export interface ClusterPrograms {
  readonly binaries: Binaries
  readonly account: SystemAccount | null
  readonly env: NodeJS.ProcessEnv
}

/** The only role of the cluster. */
export const CLUSTER_ROLE = 'fillrate'

export const dataFolder = (home: string): string => join(home, 'data')
const passwordFile = (home: string): string => join(home, 'password')
const copiedBinaries = (home: string): string => join(home, 'native')

/** Enough for 5,000 people and many connections. Loopback only, without a socket in /tmp. */
const CLUSTER_SETTINGS = `
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
shared_buffers = '64MB'
max_wal_size = '256MB'
wal_level = minimal
max_wal_senders = 0
io_method = sync
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
`

/**
 * Creates a cluster in an empty folder: data, password, and a copy of the programs if the account cannot read the
 * installed ones.
 * @throws DemoError with the output of initdb
 */
export async function createCluster(home: string, installed: ClusterPrograms): Promise<void> {
  const { account } = installed
  const { code: runs } = await readVersionText(installed)
  if (runs === null && account !== null) {
    await cp(installed.binaries.folder, copiedBinaries(home), { recursive: true, verbatimSymlinks: true })
    await chmod(copiedBinaries(home), 0o755)
  }
  const programs = { ...installed, binaries: await findClusterBinaries(home, installed.binaries) }
  await requireVersion(programs)

  const [data, password] = [dataFolder(home), passwordFile(home)]
  await writeFile(password, `${randomBytes(24).toString('base64url')}\n`, { mode: 0o600 })
  await mkdir(data, { mode: 0o700 })
  if (account !== null) for (const path of [data, password]) await chown(path, account.uid, account.gid)
  const { code, output } = await runProgram(
    programs.binaries.initdb,
    [
      `--pgdata=${data}`,
      `--username=${CLUSTER_ROLE}`,
      `--pwfile=${password}`,
      '--auth=scram-sha-256',
      // Independent of the machine's locales.
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      // Data lost in a power cut within seconds is recreated in two.
      '--no-sync',
      '--no-instructions',
    ],
    programs,
  )
  if (code !== 0)
    throw new DemoError(`The embedded Postgres could not create its data folder ${data}:\n${output}`)
  await appendFile(join(data, 'postgresql.conf'), CLUSTER_SETTINGS)
}

/** The programs that this cluster runs with. */
export async function findClusterBinaries(home: string, installed: Binaries): Promise<Binaries> {
  const copied = await stat(copiedBinaries(home)).catch(() => null)
  return copied?.isDirectory() === true ? binariesIn(copiedBinaries(home), installed) : installed
}

/** @throws DemoError if the folder holds no cluster, or one of another version */
export async function readPassword(home: string, version: string): Promise<string> {
  const again = `Remove it to start over: rm -rf ${home}`
  const made = await readClusterFile(join(dataFolder(home), 'PG_VERSION'))
  const password = await readClusterFile(passwordFile(home))
  if (made === null || password === null)
    throw new DemoError(`${home} does not contain the demo's Postgres, or only a part of it.\n${again}`)
  if (made !== version)
    throw new DemoError(
      `${home} was created by Postgres ${made}, but the embedded version is ${version} now.\n${again}`,
    )
  return password
}

const START_HINTS: Readonly<Record<string, string>> = {
  ENOENT: 'It is built for glibc; on Alpine and other systems with musl it does not run.',
  EACCES: 'It may not be executed there: is the folder inaccessible, or mounted noexec?',
}

/**
 * The major version that the programs report.
 * @throws DemoError if they do not run on this machine
 */
export async function requireVersion(programs: ClusterPrograms): Promise<string> {
  const { code, output } = await readVersionText(programs)
  const version = /\(PostgreSQL\) (\d+)/.exec(output)?.[1]
  if (code === 0 && version !== undefined) return version
  const hint = START_HINTS[output] ?? 'If the package was installed without its scripts, run: npm rebuild'
  throw new DemoError(
    `The embedded Postgres does not run on this machine: ${programs.binaries.postgres}\n${output}\n${hint}`,
  )
}

const readVersionText = (programs: ClusterPrograms): ReturnType<typeof runProgram> =>
  runProgram(programs.binaries.postgres, ['--version'], programs)

/** Null if the file does not exist. */
async function readClusterFile(path: string): Promise<string | null> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    if (!['EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return null
    throw new DemoError(
      `${path} belongs to another user: was the demo run as root here before?\nRun it as that user again, or in another folder.`,
    )
  }
}
