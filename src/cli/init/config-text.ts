import type { ProposedSource } from '../../sources/propose/proposal.ts'
import { count } from '../../domain/numbers.ts'
import type { Accepted } from './accept.ts'
import { comment } from './comment.ts'
import { FIRST_BUDGET, MIN_CONFIDENCE } from './config-object.ts'
import { keyLiteral, objectLiteral, textLiteral } from './literal.ts'
import { outputLines } from './output-text.ts'

/** Inputs stand on one line only where they are few. */
const ONE_LINE = 50

/** The text of a fillrate.config.ts: the proposal, and beside each line why it stands there. Pure. */
export function configText(accepted: readonly Accepted[]): string {
  return [
    "import { defineConfig } from 'fillrate'",
    '',
    ...comment(
      'Proposed by `fillrate init`, from the tables and a few rows of each. Read it and change it; `fillrate check` and ' +
        '`fillrate plan` cost nothing. In every expression the table is `t`.',
      '',
    ),
    'export default defineConfig({',
    '  sources: {',
    accepted.map((one, n) => sourceLines(one, n === 0).join('\n')).join('\n\n'),
    '  },',
    '',
    ...comment(
      'Lookups that one run may ask: a first run is to be a small one. Raise it when you have seen what it does.',
      '  ',
    ),
    `  budget: ${FIRST_BUDGET},`,
    '})',
    '',
  ].join('\n')
}

/** @param isFirst what is the same for every source is told with the first one */
function sourceLines(one: Accepted, isFirst: boolean): string[] {
  const { source } = one
  const at = '      '
  const once = (text: string): string[] => (isFirst ? comment(text, at) : [])
  const property = (name: string, value: string): string => `${at}${name}: ${value},`
  const text = (name: 'joins' | 'where' | 'changedAt'): string[] => {
    const value = source[name]
    return value === null ? [] : [property(name, textLiteral(value, `${at}  `))]
  }
  return [
    ...comment(`${source.kind === 'person' ? 'People' : 'Companies'} in ${source.table}.`, '    '),
    ...source.notes.flatMap((note) => comment(note, '    ')),
    `    ${keyLiteral(source.name)}: {`,
    property('kind', textLiteral(source.kind)),
    property('table', textLiteral(source.table)),
    ...text('joins'),
    ...keyLine(source, property),
    ...text('where'),
    ...(source.changedAt === null ? [] : once('A pass then costs what has changed, not what there is.')),
    ...text('changedAt'),
    ...comment(askedBy(source), at),
    property(
      'inputs',
      objectLiteral(
        source.inputs.map(({ input, sql }) => [input, textLiteral(sql, `${at}    `)] as const),
        at,
        ONE_LINE,
      ),
    ),
    ...(source.kind === 'person'
      ? [
          ...once('A record below it, 0 to 1, is not used.'),
          property('minConfidence', String(MIN_CONFIDENCE)),
        ]
      : []),
    ...once('The column on the left, the field of the record on the right. Only blank cells are written.'),
    ...source.leftOut.flatMap(({ column, why }) => comment(`Not ${column}: it ${why}.`, at)),
    `${at}outputs: {`,
    ...source.outputs.flatMap((output) => outputLines(output, one, `${at}  `)),
    `${at}},`,
    ...touchLines(source, at),
    '    },',
  ]
}

function keyLine(source: ProposedSource, property: (name: string, value: string) => string): string[] {
  if (source.key === null) return []
  const columns = source.key.map((column) => textLiteral(column))
  return [
    ...comment('The table has no primary key; this unique index tells its rows apart.', '      '),
    property('key', columns.length === 1 ? (columns[0] ?? '') : `[${columns.join(', ')}]`),
  ]
}

const IDENTIFIERS: Readonly<Record<string, string>> = {
  email: 'email',
  linkedin_url: 'profile URL',
  name_company: 'name and company',
  domain: 'domain',
}

/** How the rows that were looked at would be asked about, the first usable identifier each. */
function askedBy({ sample, kind }: ProposedSource): string {
  if (sample.rows === 0) return 'The table held no row to look at.'
  const parts = Object.keys(IDENTIFIERS).flatMap((name) => {
    const n = sample.askedBy[name] ?? 0
    return n === 0 ? [] : [`${count(n)} by ${IDENTIFIERS[name] ?? name}`]
  })
  const usable = Object.values(sample.askedBy).reduce((sum, n) => sum + n, 0)
  const rest = usable < sample.rows ? [`${count(sample.rows - usable)} have nothing usable`] : []
  const first = kind === 'person' ? 'The first usable one is asked. ' : ''
  return `${first}Of ${count(sample.rows)} rows looked at: ${[...parts, ...rest].join(', ')}.`
}

function touchLines({ touch }: ProposedSource, at: string): string[] {
  if (touch === null) return []
  return [
    ...comment('Where no trigger of yours does it:', at),
    `${at}// touch: { ${keyLiteral(touch.column)}: ${textLiteral(touch.sql)} },`,
  ]
}
