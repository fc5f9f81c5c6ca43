import { Argument, type CommandUnknownOpts } from '@commander-js/extra-typings'
import { createParser, defineCommand, Exit, program, type CliCommand } from '../command.ts'

/**
 * An own script for bash, because the script of `@bomb.sh/tab` evaluates the words of the line: a tab key would run a command
 * substitution. It also needs the package bash-completion, and fails when loaded twice. `=` is a word of its own in bash.
 */
const BASH_SCRIPT = `# bash completion for fillrate
_fillrate() {
  local word line
  local -a words=()
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do
    [[ $word == = ]] || words+=("$word")
  done
  [[ \${COMP_WORDS[COMP_CWORD]} == = ]] && words+=('')
  COMPREPLY=()
  while IFS=$'\\t' read -r line _; do
    [[ $line == :* ]] || COMPREPLY+=("$line")
  done < <(fillrate complete -- "\${words[@]}" 2>/dev/null)
}
complete -o default -F _fillrate fillrate`

export const completionCommand = defineCommand(
  createParser('completion')
    .summary('prints a script for tab completion in bash, zsh or fish')
    .description(
      'Prints a script with which the shell completes commands, options and their values. Load it at startup: ' +
        '`source <(fillrate completion bash)` in ~/.bashrc; the same with zsh in ~/.zshrc, after ' +
        '`compinit`.',
    )
    .addArgument(new Argument('<bash|zsh|fish>', 'the shell').choices(['bash', 'zsh', 'fish'])),
  {
    group: 'setup',
    json: false,
    examples: [
      ['fillrate completion bash', ''],
      ['fillrate completion fish | source', 'in ~/.config/fish/config.fish'],
    ],
    exits: [0, 2],
    environment: [],

    async handler({ args: [shell], stdout }) {
      if (shell === 'bash') {
        stdout.line(BASH_SCRIPT)
        return Exit.done
      }
      const { script } = await import('@bomb.sh/tab')
      script(shell, 'fillrate', 'fillrate')
      return Exit.done
    },
  },
)

/**
 * The command that the script calls when the tab key is pressed: `fillrate complete -- run --li`.
 * @param commands read when the command runs, because it is one of them
 */
export const createCompleteCommand = (commands: () => readonly CliCommand[]): CliCommand =>
  defineCommand(
    createParser('complete')
      .summary('prints completions of a command line')
      .description('Prints the completions of a command line, for the script of `fillrate completion`.')
      .argument('[WORD...]', 'the words typed so far, after --'),
    {
      group: 'hidden',
      json: false,
      examples: [],
      exits: [0],
      environment: [],

      async handler({ args: [words] }) {
        const { RootCommand } = await import('@bomb.sh/tab')
        const root = new RootCommand()
        addOptions(root, program)
        for (const command of commands().filter((one) => one.group !== 'hidden')) {
          const completed = root.command(command.name, command.parser.summary())
          addOptions(completed, program)
          addOptions(completed, command.parser)
          for (const argument of command.parser.registeredArguments) {
            const { argChoices: choices = [], variadic } = argument
            completed.argument(
              argument.name(),
              (complete) => choices.forEach((choice) => complete(choice, '')),
              variadic,
            )
          }
        }
        root.parse([...words])
        return Exit.done
      },
    },
  )

/** The part of a command of `@bomb.sh/tab` that is used. */
interface Completed {
  option(
    name: string,
    description: string,
    values?: (complete: (value: string, description: string) => void) => void,
    alias?: string,
  ): unknown
}

function addOptions(to: Completed, parser: CommandUnknownOpts): void {
  for (const { long = '', short, description, argChoices = [], required } of parser.options)
    if (required)
      to.option(long.slice(2), description, (complete) =>
        argChoices.forEach((choice) => complete(choice, '')),
      )
    else to.option(long.slice(2), description, undefined, short?.slice(1))
}
