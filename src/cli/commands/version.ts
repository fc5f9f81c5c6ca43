import { defineCommand, parser } from '../command.ts'
import { Exit } from '../exit-codes.ts'
import { writeJson } from '../render/json.ts'
import { version as read } from '../version.ts'

export const version = defineCommand(parser('version').summary('the version').description('The version.'), {
  group: 'hidden',
  examples: [],
  exits: [0],

  async handler({ flags }, { stdout }) {
    if (flags.json) writeJson(stdout, { version: read() })
    else stdout.line(read())
    return Exit.done
  },
})
