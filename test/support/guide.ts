import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { codeBlocks, fromSources } from './code-blocks.ts'

/** The blocks of a guide, so that its test does what its reader does. */
export interface Guide {
  readonly sql: readonly string[]
  readonly configs: readonly string[]
}

export function readGuide(name: string): Guide {
  const blocks = codeBlocks().filter(({ file }) => file === `docs/guides/${name}.md`)
  const of = (language: string): string[] =>
    blocks.filter((block) => block.language === language).map(({ code }) => code)
  return { sql: of('sql'), configs: of('ts').filter((code) => code.includes('export default defineConfig')) }
}

/** Writes a configuration of a guide in place of the folder's own, or beside it under another name: a process reads a module once. */
export async function writeGuideConfig(
  folder: string,
  code: string,
  name = 'fillrate.config.ts',
): Promise<void> {
  await rm(join(folder, 'fillrate.config.json'), { force: true })
  await writeFile(join(folder, name), fromSources(code))
}
