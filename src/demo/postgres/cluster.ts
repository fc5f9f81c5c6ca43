import { randomBytes } from 'node:crypto'
import { appendFile, chmod, chown, cp, mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DemoError } from '../settings.ts'
import { binariesIn, type Binaries } from './binaries.ts'
import { runProgram, type SystemAccount } from './program.ts'

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
export async function createCluster(
  home: string,
  options: {
    readonly binaries: Binaries
    readonly account: SystemAccount | null
    readonly env: NodeJS.ProcessEnv
  },
): Promise<void> {
  const { account, env } = options
  const reachable = (await runVersion(options.binaries, options)).startError === null
  if (!reachable && account !== null) {
    await cp(options.binaries.folder, copiedBinaries(home), { recursive: true, verbatimSymlinks: true })
    await chmod(copiedBinaries(home), 0o755)
  }
  const binaries = await findClusterBinaries(home, options.binaries)
  await requireVersion(binaries, options)

  await writeFile(passwordFile(home), `${randomBytes(24).toString('base64url')}\n`, { mode: 0o600 })
  await mkdir(dataFolder(home), { mode: 0o700 })
  if (account !== null)
    for (const path of [dataFolder(home), passwordFile(home)]) await chown(path, account.uid, account.gid)
  const { code, output, startError } = await runProgram(
    binaries.initdb,
    [
      `--pgdata=${dataFolder(home)}`,
      `--username=${CLUSTER_ROLE}`,
      `--pwfile=${passwordFile(home)}`,
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
    { env, account },
  )
  if (code !== 0)
    throw new DemoError(
      `The embedded Postgres could not create its data folder ${dataFolder(home)}:\n${startError ?? output}`,
    )
  await appendFile(join(dataFolder(home), 'postgresql.conf'), CLUSTER_SETTINGS)
}

/** The programs that this cluster runs with. */
export async function findClusterBinaries(home: string, installed: Binaries): Promise<Binaries> {
  return (await isFolder(copiedBinaries(home))) ? binariesIn(copiedBinaries(home), installed) : installed
}

/** @throws DemoError if the folder holds no cluster, or one of another version */
export async function readPassword(home: string, version: string): Promise<string> {
  const again = `Remove it to start over: rm -rf ${home}`
  const made = await readClusterFile(join(dataFolder(home), 'PG_VERSION'))
  const password = await readClusterFile(passwordFile(home))
  if (made === null || password === null)
    throw new DemoError(`${home} does not contain the demo's Postgres, or only a part of it.\n${again}`)
  if (made.trim() !== version)
    throw new DemoError(
      `${home} was created by Postgres ${made.trim()}, but the embedded version is ${version} now.\n${again}`,
    )
  return password.trim()
}

/**
 * The major version that the programs report.
 * @throws DemoError if they do not run on this machine
 */
export async function requireVersion(
  binaries: Binaries,
  options: { readonly account: SystemAccount | null; readonly env: NodeJS.ProcessEnv },
): Promise<string> {
  const { code, output, startError } = await runVersion(binaries, options)
  const version = /\(PostgreSQL\) (\d+)/.exec(output)?.[1]
  if (code === 0 && version !== undefined) return version
  const hint =
    startError === 'ENOENT'
      ? 'It is built for glibc; on Alpine and other systems with musl it does not run.'
      : startError === 'EACCES'
        ? 'It may not be executed there: is the folder inaccessible, or mounted noexec?'
        : 'If the package was installed without its scripts, run: npm rebuild'
  throw new DemoError(
    `The embedded Postgres does not run on this machine: ${binaries.postgres}\n${startError ?? output}\n${hint}`,
  )
}

const runVersion = (
  binaries: Binaries,
  options: { readonly account: SystemAccount | null; readonly env: NodeJS.ProcessEnv },
): ReturnType<typeof runProgram> => runProgram(binaries.postgres, ['--version'], options)

const isFolder = async (path: string): Promise<boolean> =>
  (await stat(path).catch(() => null))?.isDirectory() ?? false

/** Null if the file does not exist. */
async function readClusterFile(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (!['EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return null
    throw new DemoError(
      `${path} belongs to another user: was the demo run as root here before?\nRun it as that user again, or in another folder.`,
    )
  }
}
