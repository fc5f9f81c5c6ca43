import { realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Removes a demo's folder, and its data folder if that is elsewhere. */
export async function removeDemo(folder: string): Promise<void> {
  const home = await realpath(join(folder, '.fillrate', 'postgres')).catch(() => null)
  if (home !== null) await rm(home, { recursive: true, force: true })
  await rm(folder, { recursive: true, force: true })
}
