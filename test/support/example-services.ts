import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'

/** Copies the examples into `services` of a folder, as a user does, with imports from the sources. */
export async function copyExampleServices(folder: string): Promise<void> {
  const from = resolve('examples/services')
  const to = join(folder, 'services')
  await mkdir(to)
  for (const name of await readdir(from)) {
    const code = await readFile(join(from, name), 'utf8')
    await writeFile(join(to, name), code.replaceAll("from 'fillrate'", `from '${resolve('src/index.ts')}'`))
  }
}
