import type {
  Proposal,
  ProposedSource,
  Question,
  SkippedTable,
  TableExplanation,
} from '../../init/proposal.ts'
import type { AcceptedSource } from '../../init/verify.ts'
import { type Output, padText, textWidth, truncate, wrapText } from '../terminal.ts'
import { sanitize } from '../../util/text.ts'
import type { ConfigTarget } from '../../init/target.ts'
import { placeBeside, renderBar, renderCommands, renderText } from './layout.ts'
import { renderTable } from './table.ts'
import { formatCount, formatPercent, pluralize } from '../../util/format.ts'

/** The tables examined, the proposed sources, and those that may be meant, numbered. */
export function renderFoundSources(
  { sources, examined }: Proposal,
  possible: Proposal['possible'],
  output: Output,
): string[] {
  const all = [...sources, ...possible.map(({ source }) => source)]
  const numbered = all.map((source, n) => ({ ...source, n: n + 1 }))
  return [
    `Examined ${describeExamined(examined)}.`,
    '',
    ...renderTable(output, numbered, [
      { title: '', text: (one) => String(one.n), number: true },
      { title: 'table', text: (one) => one.table, minColumns: 12 },
      {
        title: 'rows (estimate)',
        text: (one) => (one.rows === null ? '?' : formatCount(one.rows)),
        number: true,
      },
      { title: 'holds', text: (one) => describeKind(one) },
      {
        title: 'looked up by',
        text: (one) => one.inputs.map(({ input }) => input).join(', '),
        minColumns: 10,
      },
      { title: 'fills', text: (one) => String(one.outputs.length), number: true },
    ]),
    ...(possible.length === 0 ? [] : ['', output.paint('quiet', 'left unless you name their numbers')]),
    ...possible.flatMap(({ source: { table }, reason }, n) =>
      renderReason({ table: `${sources.length + n + 1} ${table}`, reason }, output),
    ),
  ]
}

const describeKind = ({ kind }: ProposedSource): string => (kind === 'person' ? 'people' : 'companies')

const describeExamined = ({ tables, schemas }: Proposal['examined']): string =>
  `${pluralize(tables, 'table')} and views of ${schemas.length <= 4 ? schemas.join(', ') : pluralize(schemas.length, 'schema')}`

const LABELS = 14

/** One proposed source: its inputs, and the fill rates of its columns. */
export function renderProposedSource(one: AcceptedSource, output: Output): string[] {
  const { source } = one
  const { paint, textColumns } = output
  const conditions = (source.where ?? '').split('\nand ').filter((one) => one !== '')
  return [
    ...wrapText(`${paint('heading', source.name)}  ${describeKind(source)} in ${source.table}`, textColumns),
    ...(conditions.length === 0 ? [] : [`  ${paint('quiet', 'rows where')}`]),
    // Whole: a person confirms whom they leave out.
    ...conditions.flatMap((one) => placeBeside('  ', wrapText(one.replaceAll(/\s+/g, ' '), textColumns - 2))),
    ...renderInputs(source, output),
    '',
    ...renderOutputs(one, output),
    ...source.skippedColumns.flatMap(({ column, reason }) =>
      renderText(output, `${paint('warn', 'not')} ${sanitize(column)}: it ${reason}`),
    ),
    ...renderQuestions(source, output),
    ...source.notes.flatMap((note) => placeBeside('  ! ', wrapText(note, textColumns - 4))),
  ]
}

/** What may leave rows out, numbered, with what holds until you decide. */
function renderQuestions({ questions }: ProposedSource, output: Output): string[] {
  const { paint, textColumns } = output
  if (questions.length === 0) return []
  const numbers = String(questions.length).length + 2
  const counts = Math.max(...questions.map(({ leftOut }) => formatCount(leftOut).length)) + 2
  const line = ({ when, leftOut, isLeftOut }: Question, n: number): string[] =>
    placeBeside(
      `  ${String(n + 1).padStart(numbers)} ${isLeftOut ? paint('warn', '✗') : ' '} ${formatCount(leftOut).padStart(counts)}  `,
      wrapText(sanitize(when), textColumns - numbers - counts - 8),
    )
  return [
    '',
    `  ${paint('quiet', 'what divides its rows, and how many of the sample it is; ✗ is left out unless you say otherwise')}`,
    ...questions.flatMap(line),
  ]
}

/** The input expressions, with the share of sampled rows that each identifies. */
function renderInputs({ inputs, sample }: ProposedSource, { paint, textColumns }: Output): string[] {
  const usable = Object.values(sample.identifiedBy).reduce((sum, n) => sum + n, 0)
  const lines = inputs.map(({ input, sql }) => {
    const kind = input === 'company' ? 'name_company' : input
    const n = sample.identifiedBy[kind]
    // Name and company identify together; the share is shown beside company.
    const shared = input === 'name' || sample.rows === 0 ? '' : formatPercent((n ?? 0) / sample.rows)
    return `  ${padText(input, LABELS)}${shared.padStart(6)}  ${truncate(sql.replaceAll(/\s+/g, ' '), textColumns - LABELS - 11)}`
  })
  const rest = sample.rows - usable
  return [
    `  ${paint('quiet', sample.rows === 0 ? 'looked up by (no rows to sample)' : `looked up by, in ${pluralize(sample.rows, 'sampled row')}`)}`,
    ...lines,
    ...(rest > 0
      ? [`  ${padText('no valid input', LABELS)}${formatPercent(rest / sample.rows).padStart(6)}`]
      : []),
  ]
}

function renderOutputs({ source, coverage }: AcceptedSource, output: Output): string[] {
  const { paint } = output
  const columns = Math.min(40, Math.max(...source.outputs.map(({ column }) => textWidth(column))))
  const fields = Math.max(...source.outputs.map(({ field }) => textWidth(field)))
  const room = output.textColumns - columns - fields - 20
  return [
    `  ${paint('quiet', coverage === null ? 'fills (fill rate unknown: counting takes too long)' : `fills; current fill rate of ${pluralize(coverage.eligible, 'row')}`)}`,
    ...source.outputs.map(({ column, field }) => {
      const filled = coverage?.columns.find((one) => one.column === column)?.filled ?? 0
      const share = coverage === null || coverage.eligible === 0 ? 0 : filled / coverage.eligible
      const shown = coverage === null ? '' : `  ${formatPercent(share).padStart(6)}`
      const drawn = coverage === null || room < 8 ? '' : `  ${renderBar(share, Math.min(24, room), paint)}`
      return `  ${padText(truncate(column, columns), columns)}  ${paint('quiet', '←')} ${padText(field, fields)}${shown}${drawn}`
    }),
  ]
}

/** What was made of a table, column by column. */
export function renderExplanation({ table, verdict, columns }: TableExplanation, output: Output): string[] {
  return [
    ...wrapText(`${output.paint('heading', sanitize(table))}  ${sanitize(verdict)}`, output.textColumns),
    '',
    ...(columns.length === 0
      ? []
      : renderTable(output, columns, [
          { title: 'column', text: (one) => sanitize(one.column), minColumns: 12 },
          { title: 'type', text: (one) => sanitize(one.type), minColumns: 8 },
          { title: 'what it is taken for', text: (one) => sanitize(one.said), minColumns: 20 },
        ]).concat('')),
  ]
}

/** The reason why there is no proposal, and what to do. */
export function renderNoProposal(proposal: Proposal, output: Output): string[] {
  const { examined, skippedTables, explained, unread } = proposal
  const { paint, textColumns } = output
  const named = unread.filter(({ isNamed }) => isNamed)
  if (examined.tables === 0 && named.length === 0)
    return [
      paint('warn', 'This database has no table that this role may read.'),
      ...wrapText(
        'Check DATABASE_URL. Tables of other owners need privileges: grant usage on schema … and select, update on its tables.',
        textColumns,
      ),
    ]
  const why =
    named.length > 0
      ? `this role may not read ${named.map(({ table }) => sanitize(table)).join(', ')}.`
      : `of ${describeExamined(examined)}, ${
          skippedTables.length === 0
            ? 'none looks like a table of people or companies, by its name, columns and values.'
            : 'none has both valid inputs and columns to fill.'
        }`
  return [
    ...wrapText(`${paint('warn', 'Nothing to propose:')} ${why}`, textColumns),
    '',
    ...renderSkippedTables(skippedTables, output),
    ...(named.length > 0
      ? []
      : wrapText(
          `${explained.length > 0 ? 'Write' : `To propose a certain table: ${paint('type', 'fillrate init SCHEMA.TABLE')}. Or write`} the configuration by hand; fillrate.config.example.ts shows every field.`,
          textColumns,
        )),
  ]
}

const MAX_TABLES = 8

/** The closest tables without a proposal, with the reason. */
export function renderSkippedTables(skippedTables: readonly SkippedTable[], output: Output): string[] {
  if (skippedTables.length === 0) return []
  const shown = skippedTables.slice(0, MAX_TABLES)
  const rest = skippedTables.length - shown.length
  return [
    output.paint('quiet', 'Skipped'),
    ...shown.flatMap((one) => renderReason(one, output)),
    ...(rest > 0 ? [`  and ${pluralize(rest, 'table')} more`] : []),
    '',
  ]
}

/** What was not read and decides who is left out, or was named: all of it, however much it is. */
export const renderUnread = (unread: Proposal['unread'], output: Output): string[] =>
  unread.length === 0
    ? []
    : [
        '',
        output.paint('warn', 'Not read, because this role may not'),
        ...unread.flatMap((one) => renderReason({ table: one.table, reason: one.why }, output)),
      ]

const renderReason = (
  { table, reason }: { readonly table: string; readonly reason: string | null },
  { textColumns }: Output,
): string[] =>
  wrapText(sanitize(reason === null ? table : `${table}: ${reason}`), textColumns - 4).map(
    (line, n) => `  ${n === 0 ? '' : '  '}${line}`,
  )

/** Whole lines, to be pasted. */
export const renderMissingGrants = (grants: readonly string[], output: Output): string[] =>
  grants.length === 0
    ? []
    : [
        ...wrapText(
          'This role lacks rights. Run as the owner, leave out what you do not want, then propose again:',
          output.textColumns,
        ),
        ...grants.map((one) => `  ${sanitize(one)}`),
        '',
      ]

/** What follows `init`, in the order of the documentation: the check needs no schema, and finds what would stop a run. */
export const FIRST_STEPS = [
  ['check', 'verifies configuration, database and API access'],
  ['migrate', 'once: creates the schema "fillrate"'],
  ['plan', 'estimates lookups and cost, without a call'],
] as const

export function renderNextSteps(
  written: readonly AcceptedSource[],
  { displayPath, isFound }: ConfigTarget,
  output: Output,
): string[] {
  const other = isFound ? '' : ` --config ${displayPath}`
  const steps = FIRST_STEPS.map(
    ([verb, why]) => [`fillrate ${verb}${verb === 'migrate' ? '' : other}`, why] as const,
  )
  return [
    `${output.paint('good', '✓')} Wrote ${displayPath}, ${pluralize(written.length, 'source')}.`,
    ...(written.every(({ isReviewed }) => isReviewed)
      ? []
      : wrapText(
          `${output.paint('warn', '!')} A run leaves out what no person has read: read each source, then take out its line \`reviewed: false\`.`,
          output.textColumns,
        )),
    'Next:',
    ...renderCommands(output, steps),
  ]
}
