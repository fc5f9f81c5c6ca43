import {
  type CliCommand,
  createParser,
  defineCommand,
  COMMAND_GROUPS,
  EXIT_MEANINGS,
  PROGRAM_USAGE,
  formatArguments,
  formatUsage,
  program,
} from '../command.ts'
import type { Option } from '@commander-js/extra-typings'
import { ENVIRONMENT_VARIABLES, type EnvironmentVariable } from '../../config/environment.ts'
import { valuePlaceholder } from '../options.ts'
import { type Output, wrapText } from '../terminal.ts'
import { type TermLayout, type Terms, renderSection, renderTerms } from '../views/layout.ts'
import { readVersion } from '../../util/version.ts'

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

type HelpPage = Pick<Output, 'paint' | 'textColumns'>

/** The help of the program: its purpose, its commands, and what all commands share. */
export function renderProgramHelp(commands: readonly CliCommand[], page: HelpPage): string[] {
  const { paint } = page
  return [
    ...wrapText(
      'Fillrate enriches CRM records in Postgres from an HTTP enrichment API, at full rate limit, without overwriting ' +
        'manually entered data.',
      page.textColumns,
    ),
    '',
    `${paint('heading', 'Usage')}  ${PROGRAM_USAGE}`,
    ...Object.entries(COMMAND_GROUPS).flatMap(([group, title]) => {
      const terms = commands
        .filter((one) => one.group === group)
        .map(({ name, parser }) => [name, parser.summary()] as const)
      return renderTermSection(page, title, terms, { style: 'type', minColumns: 10 })
    }),
    ...renderTermSection(page, 'Options of every command', optionTerms(program.options)),
    ...renderTermSection(page, 'Environment', [
      ...variableTerms(Object.keys(ENVIRONMENT_VARIABLES) as EnvironmentVariable[]),
      ['FILLRATE_NAME_…', 'those of NAME where there are several services, such as FILLRATE_PDL_API_KEY'],
    ]),
    ...renderTermSection(
      page,
      'Exit codes',
      exitTerms(Object.keys(EXIT_MEANINGS).map(Number) as CliCommand['exits']),
    ),
    '',
    `More about a command:  ${paint('type', 'fillrate COMMAND --help')}`,
  ]
}

/** The help of one command. */
export function renderCommandHelp(command: CliCommand, page: HelpPage): string[] {
  const { paint, textColumns } = page
  const { parser, terms } = command
  return [
    ...wrapText(parser.description(), textColumns),
    '',
    `${paint('heading', 'Usage')}  ${formatUsage(command)}`,
    ...renderTermSection(page, 'Arguments', argumentTerms(command)),
    ...renderTermSection(page, 'Options', optionTerms(parser.options)),
    ...renderTermSection(page, 'Options of every command', optionTerms(globalOptions(command))),
    ...(terms === null ? [] : renderTermSection(page, terms.title, Object.entries(terms.list))),
    ...renderTermSection(page, 'Examples', command.examples, { style: 'type', maxColumns: 46 }),
    ...renderTermSection(page, 'Environment', variableTerms(command.environment)),
    ...renderTermSection(page, 'Exit codes', exitTerms(command.exits)),
  ]
}

/** The help of a command for programs: `help --json`. */
const toHelpJson = (command: CliCommand) => ({
  command: command.name,
  summary: command.parser.summary(),
  description: command.parser.description(),
  usage: formatUsage(command),
  options: [...command.parser.options, ...globalOptions(command)].map((option) => ({
    name: option.long ?? '',
    value: valuePlaceholder(option),
    description: option.description,
  })),
  examples: command.examples.map(([line, what]) => ({ line, description: what })),
  environment: command.environment,
  exit_codes: command.exits,
})

const globalOptions = ({ json }: CliCommand): Option[] =>
  program.options.filter((option) => json || option.long !== '--json')

const argumentTerms = (command: CliCommand): Terms =>
  formatArguments(command).map((term, n) => [term, command.parser.registeredArguments[n]?.description ?? ''])

const variableTerms = (names: readonly EnvironmentVariable[]): Terms =>
  names.map((name) => [name, ENVIRONMENT_VARIABLES[name]])

const exitTerms = (codes: CliCommand['exits']): Terms =>
  codes.map((code) => [String(code), EXIT_MEANINGS[code]])

const optionTerms = (options: readonly Option[]): Terms =>
  options.map((option) => {
    const placeholder = valuePlaceholder(option)
    const short = option.short === undefined ? '' : `, ${option.short}`
    return [`${option.long}${short}${placeholder === null ? '' : ` ${placeholder}`}`, option.description]
  })

/** A heading and terms with their meanings. Empty without terms. */
const renderTermSection = (page: HelpPage, title: string, terms: Terms, layout: TermLayout = {}): string[] =>
  renderSection(page, title, renderTerms(page, terms, { maxColumns: 30, minRoom: 40, ...layout }))

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
