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
import { mayEnter } from './account.ts'
import type { Account } from './program.ts'

/** Where the home goes when the working folder is closed to the account that Postgres runs as. Both outlive a logout. */
const OPEN_TO_ALL = ['/var/tmp', '/tmp'] as const

/** Of a folder that is being made, in `.fillrate`. */
const UNFINISHED = 'postgres-new-'
const GIVEN_UP_AFTER_MS = 10 * 60_000

/**
 * The folder of the embedded Postgres, `.fillrate/postgres`: made whole beside it and then moved into its place, so that
 * a kill at any moment leaves either all of it or nothing.
 *
 * @param make fills the new folder
 */
export async function openHome(
  state: string,
  options: {
    readonly account: Account | null
    readonly env: NodeJS.ProcessEnv
    readonly make: (folder: string) => Promise<void>
  },
): Promise<string> {
  const home = join(state, 'postgres')
  if (await exists(home)) return realpath(home)
  await mkdir(state, { recursive: true })
  await sweep(state)
  const folder = await newFolder(state, options)
  try {
    await options.make(folder)
    if (folder.startsWith(state)) await rename(folder, home)
    else await symlink(folder, home)
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    // Another demo was faster: then it is that one's.
    if (!isTaken(error)) throw error
  }
  // The real place: the way to the link may be closed to the account, where the place itself is not.
  return realpath(home)
}

/** A link whose target is gone, as after a clean-up of /var/tmp, is taken away. */
async function exists(home: string): Promise<boolean> {
  if (await stat(home).catch(() => null)) return true
  if (await lstat(home).catch(() => null)) await unlink(home)
  return false
}

async function newFolder(
  state: string,
  { account, env }: { readonly account: Account | null; readonly env: NodeJS.ProcessEnv },
): Promise<string> {
  if (account === null || (await mayEnter(state, account, env)))
    return passable(await mkdtemp(join(state, UNFINISHED)), account)
  const outside = await firstOf(OPEN_TO_ALL, (folder) => mayEnter(folder, account, env))
  return passable(await mkdtemp(join(outside ?? state, 'fillrate-')), account)
}

/** Others may pass through, but not look around. */
async function passable(folder: string, account: Account | null): Promise<string> {
  if (account !== null) await chmod(folder, 0o711)
  return folder
}

async function firstOf<T>(
  candidates: readonly T[],
  suits: (one: T) => Promise<boolean>,
): Promise<T | undefined> {
  for (const candidate of candidates) if (await suits(candidate)) return candidate
  return undefined
}

/** What a demo left that was killed while it made its folder. */
async function sweep(state: string): Promise<void> {
  for (const name of await readdir(state)) {
    if (!name.startsWith(UNFINISHED)) continue
    const { mtimeMs } = await stat(join(state, name))
    if (Date.now() - mtimeMs > GIVEN_UP_AFTER_MS)
      await rm(join(state, name), { recursive: true, force: true })
  }
}

const isTaken = (error: unknown): boolean =>
  ['EEXIST', 'ENOTEMPTY', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')
