import { realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Takes a demo's folder away, and what it keeps elsewhere where the folder is closed to Postgres's account. */
export async function removeDemo(folder: string): Promise<void> {
  const home = await realpath(join(folder, '.fillrate', 'postgres')).catch(() => null)
  if (home !== null) await rm(home, { recursive: true, force: true })
  await rm(folder, { recursive: true, force: true })
}
