import { usageOf, typed } from '../../src/cli/command.ts'
import type { Declaration } from '../../src/cli/declare.ts'
import { declarations, GLOBAL_FLAGS, VERBS, type Verb } from '../../src/cli/declarations.ts'
import { ENVIRONMENT } from '../../src/cli/environment-help.ts'
import { EXIT_MEANINGS } from '../../src/cli/exit-codes.ts'
import type { Flag } from '../../src/cli/flag.ts'
import { cell, table } from './table.ts'

const GROUPS: ReadonlyArray<readonly [Declaration['group'], string]> = [
  ['first', 'To begin with'],
  ['work', 'Work'],
  ['look', 'Look'],
  ['try', 'Try'],
]

/** docs/cli.md, out of the table that parses the words. */
export function commandsPage(): string {
  return `${[
    '# The command line',
    '<!-- Made by `npm run docs` out of src/cli/declarations.ts. Not to be edited here. -->',
    '`fillrate COMMAND [options]`. `fillrate COMMAND --help` tells the same on the terminal. In a checkout, ' +
      '`npm run fillrate -- COMMAND` is the same.',
    ...GROUPS.flatMap(([group, title]) => [
      `- **${title}**: ${inGroup(group)
        .map((verb) => `[\`${verb}\`](#fillrate-${verb})`)
        .join(', ')}`,
    ]),
    '## Options of every command',
    flags(GLOBAL_FLAGS),
    '## Exit codes',
    table(['code', 'meaning'], Object.entries(EXIT_MEANINGS)),
    '## Environment',
    'A `.env` file in the working folder is read; what is set in the environment itself goes first. Secrets come from ' +
      'here only.',
    table(
      ['variable', 'what it is'],
      Object.entries(ENVIRONMENT).map(([name, help]) => [`\`${name}\``, help]),
    ),
    ...GROUPS.flatMap(([group, title]) => [`## ${title}`, ...inGroup(group).flatMap(section)]),
  ].join('\n\n')}\n`
}

const inGroup = (group: Declaration['group']): Verb[] =>
  VERBS.filter((verb) => declarations[verb].group === group)

function section(verb: Verb): string[] {
  const declaration: Declaration = declarations[verb]
  const { about, words, examples, exits, environment, terms } = declaration
  return [
    `### fillrate ${verb}`,
    `\`${usageOf(verb)}\``,
    cell(about),
    ...(words === null ? [] : [`\`${words.placeholder}\`: ${words.help}.`]),
    ...(Object.keys(declaration.flags).length === 0 ? [] : [flags(declaration.flags)]),
    ...(terms === undefined
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

const flags = (given: Readonly<Record<string, Flag<unknown>>>): string =>
  table(
    ['option', 'what it does'],
    Object.entries(given).map(([name, flag]) => [
      `\`--${typed(name)}${flag.placeholder === null ? '' : ` ${flag.placeholder}`}\``,
      flag.help,
    ]),
  )
