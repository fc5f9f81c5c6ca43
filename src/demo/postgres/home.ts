import {
  chmod,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  unlink,
} from 'node:fs/promises'
import { join } from 'node:path'
import { type SystemAccount, canEnter } from './program.ts'

/** Used if the Postgres account cannot enter the working directory. Both survive a logout. */
const SHARED_FOLDERS = ['/var/tmp', '/tmp'] as const

/** Prefix of a folder under construction in `.fillrate`. */
const UNFINISHED_PREFIX = 'postgres-new-'
const ABANDONED_AFTER_MS = 10 * 60_000

/**
 * The folder of the embedded Postgres, `.fillrate/postgres`. It is built beside its place and then moved, so that a
 * kill leaves all of it or nothing.
 *
 * @param make fills the new folder
 */
export async function openHome(
  state: string,
  options: {
    readonly account: SystemAccount | null
    readonly env: NodeJS.ProcessEnv
    readonly make: (folder: string) => Promise<void>
  },
): Promise<string> {
  const home = join(state, 'postgres')
  if (await exists(home)) return realpath(home)
  await mkdir(state, { recursive: true })
  await removeUnfinished(state)
  const folder = await createFolder(state, options)
  try {
    await options.make(folder)
    if (folder.startsWith(state)) await rename(folder, home)
    else await symlink(folder, home)
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    // Another demo was faster; use its folder.
    if (!isTaken(error)) throw error
  }
  // The path through the link may be closed to the account, although the target is not.
  return realpath(home)
}

/** Removes a link whose target is gone, as after a clean-up of /var/tmp. */
async function exists(home: string): Promise<boolean> {
  if (await stat(home).catch(() => null)) return true
  if (await lstat(home).catch(() => null)) await unlink(home)
  return false
}

async function createFolder(
  state: string,
  { account, env }: { readonly account: SystemAccount | null; readonly env: NodeJS.ProcessEnv },
): Promise<string> {
  if (account === null || (await canEnter(state, account, env)))
    return makePassable(await mkdtemp(join(state, UNFINISHED_PREFIX)), account)
  const outside = await findFirst(SHARED_FOLDERS, (folder) => canEnter(folder, account, env))
  return makePassable(await mkdtemp(join(outside ?? state, 'fillrate-')), account)
}

/** Others may pass through the folder, but not list it. */
async function makePassable(folder: string, account: SystemAccount | null): Promise<string> {
  if (account !== null) await chmod(folder, 0o711)
  return folder
}

async function findFirst<T>(
  candidates: readonly T[],
  suits: (one: T) => Promise<boolean>,
): Promise<T | undefined> {
  for (const candidate of candidates) if (await suits(candidate)) return candidate
  return undefined
}

/** Removes folders left by demos killed while creating them. */
async function removeUnfinished(state: string): Promise<void> {
  for (const name of await readdir(state)) {
    if (!name.startsWith(UNFINISHED_PREFIX)) continue
    const { mtimeMs } = await stat(join(state, name))
    if (Date.now() - mtimeMs > ABANDONED_AFTER_MS)
      await rm(join(state, name), { recursive: true, force: true })
  }
}

const isTaken = (error: unknown): boolean =>
  ['EEXIST', 'ENOTEMPTY', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')
