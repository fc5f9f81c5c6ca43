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
import { type ClusterPrograms, createCluster } from './cluster.ts'
import { canEnter } from './program.ts'

/** Used if the Postgres account cannot enter the working directory. Both survive a logout. */
const SHARED_FOLDERS = ['/var/tmp', '/tmp'] as const

/** Prefix of a folder under construction in `.fillrate`. */
const UNFINISHED_PREFIX = 'postgres-new-'
const ABANDONED_AFTER_MS = 10 * 60_000

/**
 * The folder of the embedded Postgres, `.fillrate/postgres`, with its cluster. It is built beside its place and then
 * moved, so that a kill leaves all of it or nothing.
 */
export async function openHome(state: string, programs: ClusterPrograms): Promise<string> {
  const home = join(state, 'postgres')
  // The path through a link may be closed to the account, although the target is not.
  if (await exists(home)) return realpath(home)
  await mkdir(state, { recursive: true })
  await removeUnfinished(state)
  const folder = await createFolder(state, programs)
  try {
    await createCluster(folder, programs)
    if (folder.startsWith(state)) await rename(folder, home)
    else await symlink(folder, home)
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    // Another demo was faster; use its folder.
    if (!['EEXIST', 'ENOTEMPTY', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
  return realpath(home)
}

/** Removes a link whose target is gone, as after a clean-up of /var/tmp. */
async function exists(home: string): Promise<boolean> {
  if (await stat(home).catch(() => null)) return true
  if (await lstat(home).catch(() => null)) await unlink(home)
  return false
}

/** A new folder in `.fillrate`, or where the account may enter; others may pass through it, but not list it. */
async function createFolder(state: string, { account, env }: ClusterPrograms): Promise<string> {
  if (account === null) return mkdtemp(join(state, UNFINISHED_PREFIX))
  let prefix = join(state, UNFINISHED_PREFIX)
  if (!(await canEnter(state, account, env)))
    for (const shared of SHARED_FOLDERS.toReversed())
      if (await canEnter(shared, account, env)) prefix = join(shared, 'fillrate-')
  const folder = await mkdtemp(prefix)
  await chmod(folder, 0o711)
  return folder
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
