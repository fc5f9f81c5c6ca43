import type { Option } from '@commander-js/extra-typings'
import {
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

const GROUPS = {
  first: 'Start here',
  work: 'The work',
  look: 'How it stands',
  try: 'To try things out',
} as const satisfies Partial<Record<CliCommand['group'], string>>

interface Page {
  readonly columns: number
  readonly paint: Paint
}

/** The help of the whole program: what it is, the commands, and what holds for all of them. */
export function renderProgramHelp(commands: readonly CliCommand[], page: Page): string[] {
  const { paint } = page
  return [
    ...wrapText(
      'Fillrate fills in what a CRM in Postgres does not know: it asks an enrichment service at the highest rate ' +
        'the service allows, and never overwrites what a person typed.',
      page.columns,
    ),
    '',
    `${paint('heading', 'Usage')}  ${PROGRAM_USAGE}`,
    ...Object.entries(GROUPS).flatMap(([group, title]) => {
      const terms = commands
        .filter((one) => one.group === group)
        .map(({ name, parser }) => [name, parser.summary()] as const)
      return section(title, terms, page, { style: 'type', least: 10 })
    }),
    ...section('Options of every command', optionTerms(program.options), page),
    ...section('Environment', variables(Object.keys(ENVIRONMENT_HELP) as EnvironmentVariable[]), page),
    ...section('Exit codes', exits(Object.keys(EXIT_MEANINGS).map(Number) as CliCommand['exits']), page),
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
    ...section('Arguments', argumentHelp(command), page),
    ...section('Options', optionTerms(parser.options), page),
    ...section('Options of every command', optionTerms(globalOptions(command)), page),
    ...(terms === null ? [] : section(terms.title, Object.entries(terms.list), page)),
    ...section('Examples', command.examples, page, { style: 'type', longest: 46 }),
    ...section('Environment', variables(command.environment), page),
    ...section('Exit codes', exits(command.exits), page),
  ]
}

const globalOptions = ({ json }: CliCommand): Option[] =>
  program.options.filter((option) => json || option.long !== '--json')

const argumentHelp = (command: CliCommand): Terms =>
  formatArguments(command).map((term, n) => [term, command.parser.registeredArguments[n]?.description ?? ''])

const variables = (names: readonly EnvironmentVariable[]): Terms =>
  names.map((name) => [name, ENVIRONMENT_HELP[name]])

const exits = (codes: CliCommand['exits']): Terms => codes.map((code) => [String(code), EXIT_MEANINGS[code]])

const optionTerms = (options: readonly Option[]): Terms =>
  options.map((option) => {
    const placeholder = valuePlaceholder(option)
    const short = option.short === undefined ? '' : `, ${option.short}`
    return [`${option.long}${short}${placeholder === null ? '' : ` ${placeholder}`}`, option.description]
  })

type Terms = readonly (readonly [term: string, meaning: string])[]

const INDENT = 2
const GAP = 2
/** With less room than this, meanings go under their terms. */
const NARROWEST_MEANING = 40

interface Look {
  readonly style?: 'type'
  /** The columns of the terms, at the least. */
  readonly least?: number
  /** A longer term stands on a line of its own, so that one of them does not push all the meanings to the right. */
  readonly longest?: number
}

/** A heading, and terms with their meanings beside them; nothing without terms. */
function section(title: string, terms: Terms, page: Page, look: Look = {}): string[] {
  if (terms.length === 0) return []
  const { paint, columns } = page
  const { style = null, least = 0, longest = 30 } = look
  const widths = terms.map(([term]) => textWidth(term)).filter((one) => one <= longest)
  const meanings = terms.some(([, meaning]) => meaning !== '')
  const termWidth = meanings ? Math.max(least, ...widths) : 0
  const beside = INDENT + termWidth + GAP
  const stacked = columns - beside < NARROWEST_MEANING
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
