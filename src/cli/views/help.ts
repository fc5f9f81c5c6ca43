import type { Option } from '@commander-js/extra-typings'
import {
  COMMAND_GROUPS,
  type CliCommand,
  ENVIRONMENT_HELP,
  EXIT_MEANINGS,
  type EnvironmentVariable,
  PROGRAM_USAGE,
  formatArguments,
  formatUsage,
  program,
} from '../command.ts'
import { valuePlaceholder } from '../options.ts'
import { type Paint, textWidth, wrapText } from '../terminal.ts'

interface Page {
  readonly columns: number
  readonly paint: Paint
}

/** The help of the program: its purpose, its commands, and what all commands share. */
export function renderProgramHelp(commands: readonly CliCommand[], page: Page): string[] {
  const { paint } = page
  return [
    ...wrapText(
      'Fillrate enriches CRM records in Postgres from an HTTP enrichment API, at full rate limit, without overwriting ' +
        'manually entered data.',
      page.columns,
    ),
    '',
    `${paint('heading', 'Usage')}  ${PROGRAM_USAGE}`,
    ...Object.entries(COMMAND_GROUPS).flatMap(([group, title]) => {
      const terms = commands
        .filter((one) => one.group === group)
        .map(({ name, parser }) => [name, parser.summary()] as const)
      return renderTerms(title, terms, page, { style: 'type', minColumns: 10 })
    }),
    ...renderTerms('Options of every command', optionTerms(program.options), page),
    ...renderTerms(
      'Environment',
      variableTerms(Object.keys(ENVIRONMENT_HELP) as EnvironmentVariable[]),
      page,
    ),
    ...renderTerms(
      'Exit codes',
      exitTerms(Object.keys(EXIT_MEANINGS).map(Number) as CliCommand['exits']),
      page,
    ),
    '',
    `More about a command:  ${paint('type', 'fillrate COMMAND --help')}`,
  ]
}

/** The help of one command. */
export function renderCommandHelp(command: CliCommand, page: Page): string[] {
  const { paint, columns } = page
  const { parser, terms } = command
  return [
    ...wrapText(parser.description(), columns),
    '',
    `${paint('heading', 'Usage')}  ${formatUsage(command)}`,
    ...renderTerms('Arguments', argumentTerms(command), page),
    ...renderTerms('Options', optionTerms(parser.options), page),
    ...renderTerms('Options of every command', optionTerms(globalOptions(command)), page),
    ...(terms === null ? [] : renderTerms(terms.title, Object.entries(terms.list), page)),
    ...renderTerms('Examples', command.examples, page, { style: 'type', maxColumns: 46 }),
    ...renderTerms('Environment', variableTerms(command.environment), page),
    ...renderTerms('Exit codes', exitTerms(command.exits), page),
  ]
}

/** The help of a command for programs: `help --json`. */
export const toHelpJson = (command: CliCommand) => ({
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
  names.map((name) => [name, ENVIRONMENT_HELP[name]])

const exitTerms = (codes: CliCommand['exits']): Terms =>
  codes.map((code) => [String(code), EXIT_MEANINGS[code]])

const optionTerms = (options: readonly Option[]): Terms =>
  options.map((option) => {
    const placeholder = valuePlaceholder(option)
    const short = option.short === undefined ? '' : `, ${option.short}`
    return [`${option.long}${short}${placeholder === null ? '' : ` ${placeholder}`}`, option.description]
  })

type Terms = readonly (readonly [term: string, meaning: string])[]

const INDENT = 2
const GAP = 2
/** With less room, meanings are printed under their terms. */
const MIN_MEANING_COLUMNS = 40

interface TermLayout {
  readonly style?: 'type'
  /** The minimum width of the terms. */
  readonly minColumns?: number
  /** A longer term gets a line of its own, so that it does not push all meanings to the right. */
  readonly maxColumns?: number
}

/** A heading and terms with their meanings. Empty without terms. */
function renderTerms(title: string, terms: Terms, page: Page, layout: TermLayout = {}): string[] {
  if (terms.length === 0) return []
  const { paint, columns } = page
  const { style = null, minColumns = 0, maxColumns = 30 } = layout
  const widths = terms.map(([term]) => textWidth(term)).filter((one) => one <= maxColumns)
  const meanings = terms.some(([, meaning]) => meaning !== '')
  const termWidth = meanings ? Math.max(minColumns, ...widths) : 0
  const beside = INDENT + termWidth + GAP
  const stacked = columns - beside < MIN_MEANING_COLUMNS
  const column = stacked ? 3 * INDENT : beside
  const lines = terms.flatMap(([term, meaning]) => {
    const shown = ' '.repeat(INDENT) + (style === null ? term : paint(style, term))
    if (meaning === '') return [shown]
    const text = wrapText(meaning, columns - column)
    const fits = !stacked && textWidth(term) <= termWidth
    const first = fits
      ? [shown + ' '.repeat(column - INDENT - textWidth(term)) + (text.shift() ?? '')]
      : [shown]
    return [...first, ...text.map((line) => ' '.repeat(column) + line)]
  })
  return ['', paint('heading', title), ...lines]
}
