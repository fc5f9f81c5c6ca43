import { Exit, createParser, defineCommand } from '../command.ts'
import { writeJson } from '../terminal.ts'
import { readVersion } from '../../util/version.ts'

export const versionCommand = defineCommand(
  createParser('version').summary('prints the version').description('Prints the version.'),
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
