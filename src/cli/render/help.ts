import { typed, USAGE, usageOf } from '../command.ts'
import { declarations, GLOBAL_FLAGS, VERBS, type Verb } from '../declarations.ts'
import type { Declaration, Flags } from '../declare.ts'
import { ENVIRONMENT, type Variable } from '../environment-help.ts'
import { EXIT_MEANINGS } from '../exit-codes.ts'
import type { Paint } from './paint.ts'
import { width, wrap } from './text.ts'

const GROUPS = {
  first: 'Start here',
  work: 'The work',
  look: 'How it stands',
  try: 'To try things out',
} as const satisfies Partial<Record<Declaration['group'], string>>

interface Page {
  readonly columns: number
  readonly paint: Paint
}

/** The help of the whole program: what it is, the commands, and what holds for all of them. */
export function programHelp(page: Page): string[] {
  const { paint } = page
  return [
    ...wrap(
      'Fillrate fills in what a CRM in Postgres does not know: it asks an enrichment service at the highest rate ' +
        'the service allows, and never overwrites what a person typed.',
      page.columns,
    ),
    '',
    `${paint('heading', 'Usage')}  ${USAGE}`,
    ...Object.entries(GROUPS).flatMap(([group, title]) => {
      const verbs = VERBS.filter((verb) => declarations[verb].group === group)
      return section(
        title,
        verbs.map((verb) => [verb, declarations[verb].summary]),
        page,
        { style: 'type', least: 10 },
      )
    }),
    ...section('Options of every command', flagTerms(GLOBAL_FLAGS), page),
    ...section('Environment', variables(Object.keys(ENVIRONMENT) as Variable[]), page),
    ...section('Exit codes', exits(Object.keys(EXIT_MEANINGS).map(Number) as Declaration['exits']), page),
    '',
    `More about a command:  ${paint('type', 'fillrate COMMAND --help')}`,
  ]
}

/** The help of one command. */
export function commandHelp(verb: Verb, page: Page): string[] {
  const { paint, columns } = page
  const declaration: Declaration = declarations[verb]
  const { json, ...others } = GLOBAL_FLAGS
  const globals: Flags = declaration.json ? { json, ...others } : others
  const { words, terms } = declaration
  return [
    ...wrap(declaration.about, columns),
    '',
    `${paint('heading', 'Usage')}  ${usageOf(verb)}`,
    ...(words === null ? [] : section('Words', [[words.placeholder, words.help]], page)),
    ...section('Options', flagTerms(declaration.flags), page),
    ...section('Options of every command', flagTerms(globals), page),
    ...(terms === undefined ? [] : section(terms.title, Object.entries(terms.list), page)),
    ...section('Examples', declaration.examples, page, { style: 'type', longest: 46 }),
    ...section('Environment', variables(declaration.environment), page),
    ...section('Exit codes', exits(declaration.exits), page),
  ]
}

const variables = (names: readonly Variable[]): Terms => names.map((name) => [name, ENVIRONMENT[name]])

const exits = (codes: Declaration['exits']): Terms => codes.map((code) => [String(code), EXIT_MEANINGS[code]])

const flagTerms = (flags: Flags): Terms =>
  Object.entries(flags).map(([name, { placeholder, short, help }]) => [
    `--${typed(name)}${short === null ? '' : `, -${short}`}${placeholder === null ? '' : ` ${placeholder}`}`,
    help,
  ])

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
  const widths = terms.map(([term]) => width(term)).filter((one) => one <= longest)
  const meanings = terms.some(([, meaning]) => meaning !== '')
  const termWidth = meanings ? Math.max(least, ...widths) : 0
  const beside = INDENT + termWidth + GAP
  const stacked = columns - beside < NARROWEST_MEANING
  const column = stacked ? 3 * INDENT : beside
  const lines = terms.flatMap(([term, meaning]) => {
    const shown = ' '.repeat(INDENT) + (style === null ? term : paint(style, term))
    if (meaning === '') return [shown]
    const text = wrap(meaning, columns - column)
    const fits = !stacked && width(term) <= termWidth
    const first = fits ? [shown + ' '.repeat(column - INDENT - width(term)) + (text.shift() ?? '')] : [shown]
    return [...first, ...text.map((line) => ' '.repeat(column) + line)]
  })
  return ['', paint('heading', title), ...lines]
}
