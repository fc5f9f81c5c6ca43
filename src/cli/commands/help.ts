import { type CliCommand, createParser, defineCommand } from '../command.ts'
import { renderCommandHelp, renderProgramHelp, toHelpJson } from '../views/help.ts'

/** @param commands read when the command runs, because it is one of them */
export const createHelpCommand = (commands: () => readonly CliCommand[]): CliCommand =>
  defineCommand(
    createParser('help')
      .summary('shows this help, or the help of a command')
      .description('Shows the help of Fillrate, or of a command.')
      .argument('[COMMAND]', 'a command')
      .allowExcessArguments(),
    {
      group: 'hidden',
      examples: [],
      exits: [0],
      environment: [],

      async handler({ args: [topic], stdout }) {
        const command = commands().find((one) => one.name === topic)
        const listed = commands().filter((one) => one.group !== 'hidden')
        return {
          json: { commands: (command === undefined ? listed : [command]).map(toHelpJson) },
          text: () =>
            command === undefined
              ? renderProgramHelp(commands(), stdout)
              : renderCommandHelp(command, stdout),
        }
      },
    },
  )
