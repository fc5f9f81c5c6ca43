import { createParser, defineCommand } from '../command.ts'
import { readVersion } from '../../util/version.ts'

export const versionCommand = defineCommand(
  createParser('version').summary('prints the version').description('Prints the version.'),
  {
    group: 'hidden',
    examples: [],
    exits: [0],
    environment: [],

    async handler() {
      const version = readVersion()
      return { json: { version }, text: () => [version] }
    },
  },
)
