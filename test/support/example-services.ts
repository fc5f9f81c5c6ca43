import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fromSources } from './code-blocks.ts'

/** Copies the examples into `services` of a folder, as a user does, with imports from the sources. */
export async function copyExampleServices(folder: string): Promise<void> {
  const from = 'examples/services'
  const to = join(folder, 'services')
  await mkdir(to)
  for (const name of await readdir(from)) {
    const code = await readFile(join(from, name), 'utf8')
    await writeFile(join(to, name), fromSources(code))
  }
}
