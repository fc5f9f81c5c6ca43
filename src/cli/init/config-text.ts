import type { ProposedSource } from '../../init/proposal.ts'
import { formatCount } from '../../util/format.ts'
import type { AcceptedSource } from '../../init/verify.ts'
import { commentLines } from './comment.ts'
import { FIRST_BUDGET, DEFAULT_MIN_CONFIDENCE } from '../../init/config-object.ts'
import { keyLiteral, objectLiteral, textLiteral } from '../../init/literal.ts'
import { outputConfigLines } from './output-text.ts'

/** Inputs go on one line only if they fit this width. */
const MAX_INLINE_WIDTH = 50

/** The text of a fillrate.config.ts, with a reason beside each line. Pure. */
export function renderConfig(accepted: readonly AcceptedSource[]): string {
  return [
    "import { defineConfig } from 'fillrate'",
    '',
    ...commentLines(
      'Proposed by `fillrate init` from the tables and a few rows of each. Review and edit it; `fillrate check` and ' +
        '`fillrate plan` are free. In every expression, `t` is the table.',
      '',
    ),
    'export default defineConfig({',
    '  sources: {',
    accepted.map((one, n) => sourceConfigLines(one, n === 0).join('\n')).join('\n\n'),
    '  },',
    '',
    ...commentLines(
      'Maximum lookups per run. Start with a small run, and raise this once you have seen the results.',
      '  ',
    ),
    `  budget: ${FIRST_BUDGET},`,
    '})',
    '',
  ].join('\n')
}

/** @param isFirst whether to include the comments that apply to every source */
function sourceConfigLines(one: AcceptedSource, isFirst: boolean): string[] {
  const { source } = one
  const at = '      '
  const once = (text: string): string[] => (isFirst ? commentLines(text, at) : [])
  const property = (name: string, value: string): string => `${at}${name}: ${value},`
  const text = (name: 'joins' | 'where' | 'changedAt'): string[] => {
    const value = source[name]
    return value === null ? [] : [property(name, textLiteral(value, `${at}  `))]
  }
  return [
    ...commentLines(`${source.kind === 'person' ? 'People' : 'Companies'} in ${source.table}.`, '    '),
    ...source.notes.flatMap((note) => commentLines(note, '    ')),
    `    ${keyLiteral(source.name)}: {`,
    property('kind', textLiteral(source.kind)),
    property('table', textLiteral(source.table)),
    ...text('joins'),
    ...keyLine(source, property),
    ...text('where'),
    ...(source.changedAt === null ? [] : once('A pass then reads only changed rows.')),
    ...text('changedAt'),
    ...commentLines(describeIdentifiers(source), at),
    property(
      'inputs',
      objectLiteral(
        source.inputs.map(({ input, sql }) => [input, textLiteral(sql, `${at}    `)] as const),
        at,
        MAX_INLINE_WIDTH,
      ),
    ),
    ...(source.kind === 'person'
      ? [
          ...once('Records with a lower confidence, 0 to 1, are not used.'),
          property('minConfidence', String(DEFAULT_MIN_CONFIDENCE)),
        ]
      : []),
    ...once('Column on the left, field of the record on the right. Only blank cells are written.'),
    ...source.leftOut.flatMap(({ column, why }) => commentLines(`Not ${column}: it ${why}.`, at)),
    `${at}outputs: {`,
    ...source.outputs.flatMap((output) => outputConfigLines(output, one, `${at}  `)),
    `${at}},`,
    ...touchLines(source, at),
    '    },',
  ]
}

function keyLine(source: ProposedSource, property: (name: string, value: string) => string): string[] {
  if (source.key === null) return []
  const columns = source.key.map((column) => textLiteral(column))
  return [
    ...commentLines('The table has no primary key; this unique index identifies its rows.', '      '),
    property('key', columns.length === 1 ? (columns[0] ?? '') : `[${columns.join(', ')}]`),
  ]
}

const IDENTIFIER_LABELS: Readonly<Record<string, string>> = {
  email: 'email',
  linkedin_url: 'profile URL',
  name_company: 'name and company',
  domain: 'domain',
}

/** How many sampled rows each identifier would look up. */
function describeIdentifiers({ sample, kind }: ProposedSource): string {
  if (sample.rows === 0) return 'The table has no rows to sample.'
  const parts = Object.keys(IDENTIFIER_LABELS).flatMap((name) => {
    const n = sample.askedBy[name] ?? 0
    return n === 0 ? [] : [`${formatCount(n)} by ${IDENTIFIER_LABELS[name] ?? name}`]
  })
  const usable = Object.values(sample.askedBy).reduce((sum, n) => sum + n, 0)
  const rest = usable < sample.rows ? [`${formatCount(sample.rows - usable)} have nothing usable`] : []
  const first = kind === 'person' ? 'The first usable one is looked up. ' : ''
  return `${first}Of ${formatCount(sample.rows)} sampled rows: ${[...parts, ...rest].join(', ')}.`
}

function touchLines({ touch }: ProposedSource, at: string): string[] {
  if (touch === null) return []
  return [
    ...commentLines('If no trigger of yours sets it:', at),
    `${at}// touch: { ${keyLiteral(touch.column)}: ${textLiteral(touch.sql)} },`,
  ]
}
