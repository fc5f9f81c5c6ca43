import { defineCommand, parser, type CliCommand } from '../command.ts'
import { Exit } from '../exit-codes.ts'
import { commandHelp, programHelp } from '../render/help.ts'

/** @param commands read when it is shown: help is itself one of them */
export const createHelp = (commands: () => readonly CliCommand[]): CliCommand =>
  defineCommand(
    parser('help')
      .summary('this help, or that of a command')
      .description('This help, or that of a command.')
      .argument('[COMMAND]', 'a command')
      .allowExcessArguments(),
    {
      group: 'hidden',
      examples: [],
      exits: [0],

      async handler({ args: [topic] }, { stdout }) {
        const page = { columns: stdout.textColumns, paint: stdout.paint }
        const command = commands().find((one) => one.name === topic)
        const lines = command === undefined ? programHelp(commands(), page) : commandHelp(command, page)
        for (const line of lines) stdout.line(line)
        return Exit.done
      },
    },
  )
