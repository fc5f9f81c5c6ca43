import { mkdtemp, mkdir, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { bundleProgram } from '../../scripts/build.ts'

const CACHE = resolve(import.meta.dirname, '../../.cache')

/**
 * Bundles the program once for the processes that tests start: a process of the bundle takes a third of the processor time
 * of one that loads 900 files, and it is what users run. In a folder of its own, because two test runs may overlap.
 */
export default async function setup(): Promise<() => Promise<void>> {
  await mkdir(CACHE, { recursive: true })
  const folder = await mkdtemp(join(CACHE, 'program-'))
  await bundleProgram(folder)
  // Workers inherit the environment.
  process.env['TEST_PROGRAM'] = join(folder, 'src/main.js')
  return () => rm(folder, { recursive: true, force: true })
}
