import { Exit, createParser, defineCommand } from '../command.ts'
import { writeJson } from '../terminal.ts'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export const versionCommand = defineCommand(
  createParser('version').summary('the version').description('The version.'),
  {
    group: 'hidden',
    examples: [],
    exits: [0],

    async handler({ flags }, { stdout }) {
      if (flags.json) writeJson(stdout, { version: readVersion() })
      else stdout.line(readVersion())
      return Exit.done
    },
  },
)

/** This program's version, from the package.json that is nearest above; the built program lies deeper than the source. */
export function readVersion(): string {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    const file = join(folder, 'package.json')
    if (existsSync(file)) {
      const { version: found } = JSON.parse(readFileSync(file, 'utf8')) as { version?: string }
      if (found !== undefined) return found
    }
    if (folder === dirname(folder)) return 'unknown'
  }
}
