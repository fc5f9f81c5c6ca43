import type { Option } from '@commander-js/extra-typings'
import {
  type CliCommand,
  ENVIRONMENT_HELP,
  EXIT_MEANINGS,
  formatArguments,
  formatUsage,
  program,
} from '../../src/cli/command.ts'
import { commands } from '../../src/cli/commands.ts'
import { valuePlaceholder } from '../../src/cli/options.ts'
import { cell, table } from './table.ts'

const GROUPS: ReadonlyArray<readonly [CliCommand['group'], string]> = [
  ['first', 'To begin with'],
  ['work', 'Work'],
  ['look', 'Look'],
  ['try', 'Try'],
]

/** docs/cli.md, out of the commands' own declarations. */
export function commandsPage(): string {
  return `${[
    '# The command line',
    '<!-- Made by `npm run docs` out of src/cli/commands. Not to be edited here. -->',
    '`fillrate COMMAND [options]`. `fillrate COMMAND --help` tells the same on the terminal. In a checkout, ' +
      '`npm run fillrate -- COMMAND` is the same.',
    ...GROUPS.flatMap(([group, title]) => [
      `- **${title}**: ${inGroup(group)
        .map(({ name }) => `[\`${name}\`](#fillrate-${name})`)
        .join(', ')}`,
    ]),
    '## Options of every command',
    options(program.options),
    '## Exit codes',
    table(['code', 'meaning'], Object.entries(EXIT_MEANINGS)),
    '## Environment',
    'A `.env` file in the working folder is read; what is set in the environment itself goes first. Secrets come from ' +
      'here only.',
    table(
      ['variable', 'what it is'],
      Object.entries(ENVIRONMENT_HELP).map(([name, help]) => [`\`${name}\``, help]),
    ),
    ...GROUPS.flatMap(([group, title]) => [`## ${title}`, ...inGroup(group).flatMap(section)]),
  ].join('\n\n')}\n`
}

const inGroup = (group: CliCommand['group']): CliCommand[] => commands.filter((one) => one.group === group)

function section(command: CliCommand): string[] {
  const { name, parser, examples, exits, environment, terms } = command
  return [
    `### fillrate ${name}`,
    `\`${formatUsage(command)}\``,
    cell(parser.description()),
    ...formatArguments(command).map(
      (term, n) => `\`${term}\`: ${parser.registeredArguments[n]?.description}.`,
    ),
    ...(parser.options.length === 0 ? [] : [options(parser.options)]),
    ...(terms === null
      ? []
      : [
          `${terms.title}:`,
          table(
            ['name', 'meaning'],
            Object.entries(terms.list).map(([name, meaning]) => [`\`${name}\``, meaning]),
          ),
        ]),
    ...(examples.length === 0
      ? []
      : [
          `\`\`\`sh\n${examples.map(([line, what]) => (what === '' ? line : `${line}  # ${what}`)).join('\n')}\n\`\`\``,
        ]),
    `Ends with ${exits.join(', ')}.${environment.length === 0 ? '' : ` Reads ${environment.map((name) => `\`${name}\``).join(', ')}.`}`,
  ]
}

const options = (given: readonly Option[]): string =>
  table(
    ['option', 'what it does'],
    given.map((option) => {
      const placeholder = valuePlaceholder(option)
      return [`\`${option.long}${placeholder === null ? '' : ` ${placeholder}`}\``, option.description]
    }),
  )
