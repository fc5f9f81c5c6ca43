import { type CliCommand, Exit, createParser, defineCommand } from '../command.ts'
import { renderCommandHelp, renderProgramHelp } from '../views/help.ts'

/** @param commands read when it is shown: help is itself one of them */
export const createHelpCommand = (commands: () => readonly CliCommand[]): CliCommand =>
  defineCommand(
    createParser('help')
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
        const lines =
          command === undefined ? renderProgramHelp(commands(), page) : renderCommandHelp(command, page)
        for (const line of lines) stdout.line(line)
        return Exit.done
      },
    },
  )
