import { type CliCommand, Exit, createParser, defineCommand } from '../command.ts'
import { writeJson } from '../terminal.ts'
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

      async handler({ args: [topic], flags }, { stdout }) {
        const page = { columns: stdout.textColumns, paint: stdout.paint }
        const command = commands().find((one) => one.name === topic)
        if (flags.json) {
          const listed = commands().filter((one) => one.group !== 'hidden')
          writeJson(stdout, { commands: (command === undefined ? listed : [command]).map(toHelpJson) })
          return Exit.done
        }
        const lines =
          command === undefined ? renderProgramHelp(commands(), page) : renderCommandHelp(command, page)
        stdout.lines(lines)
        return Exit.done
      },
    },
  )
