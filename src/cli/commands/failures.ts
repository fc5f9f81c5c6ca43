import type { SkippedGroup } from '../../domain/report/run.ts'
import { FAILURE_STATES, FAILURE_ADVICE, formatState, type RowState } from '../../domain/row.ts'
import type { Database } from '../../store/open.ts'
import type { FailedRow, FailureFilter, FailureReason } from '../../store/row-search.ts'
import type { SkippedRow } from '../../store/skipped-cells.ts'
import { Exit, createParser, defineCommand, type CliCall, type ExitCode } from '../command.ts'
import { readConfig, useDatabase } from '../settings.ts'
import { formatChoices, parseText, statesOption } from '../options.ts'
import type { Output } from '../terminal.ts'
import { pluralize, formatCount, relativeTime } from '../../util/text.ts'
import type { SkipReason } from '../../domain/skipped-cell.ts'
import { renderFields, renderSection, renderText, stateStyle } from '../views/layout.ts'
import { SOURCE_COLUMN, renderTable } from '../views/table.ts'
import { describeRarest, renderSkippedSection } from '../views/report.ts'

/** Rows shown; `--csv` has all. */
const SHOWN = 10

const failuresParser = createParser('failures')
  .summary('lists rows that could not be enriched and cells that were skipped, by reason')
  .description(
    'Reasons with their number of rows and how to fix them, the cells that were skipped with their values, then the ' +
      'latest ten rows. Rows without a match are not included.',
  )
  .option(
    '--csv',
    'print all rows, and a line for each skipped cell, as CSV: source, key, state, reason, settled_at, column, ' +
      'value, service',
    false,
  )
  .option(
    '--source <SOURCE>',
    "rows of this source, or of those that a pattern matches: 'acme_*'",
    parseText,
    null,
  )
  .addOption(
    statesOption(
      '--state <STATE,…>',
      `rows in these states: ${formatChoices(FAILURE_STATES)}`,
      FAILURE_STATES,
      null,
    ),
  )

export const failuresCommand = defineCommand(failuresParser, {
  group: 'inspect',
  examples: [
    ['fillrate failures', ''],
    ['fillrate failures --state rejected --csv', 'into a file with `> rejected.csv`'],
  ],

  async handler(call) {
    const { flags, stdout } = call
    const store = await import('../../store/row-search.ts')
    const skippedCells = await import('../../store/skipped-cells.ts')
    const configured = Object.keys((await readConfig(call)).sources)
    const db = await useDatabase(call)
    const filter = { source: await chooseFilter(db, flags.source, configured), states: flags.state }
    if (flags.csv) return printCsv(db, filter, call)
    const reasons = await store.countFailureReasons(db, filter)
    const rows = await store.latestFailures(db, filter, SHOWN)
    const cells = await skippedCells.groupSkippedCells(db, filter)
    const total = reasons.reduce((sum, reason) => sum + reason.rows, 0)
    const found = { total, reasons, cells, rows }
    return { json: found, text: () => renderFailures(found, stdout, call.now()) }
  },
})

/** The sources of `--source`: also sources that left the configuration, as long as they have rows. */
async function chooseFilter(
  db: Database,
  source: string | null,
  configured: readonly string[],
): Promise<readonly string[]> {
  if (source === null) return configured
  const { listSourceNames } = await import('../../store/rows.ts')
  const { expandSourceNames, refuseUnknownSource } = await import('../../actions/validate-request.ts')
  const known = await listSourceNames(db)
  return source.includes('*') || known.includes(source)
    ? expandSourceNames([source], known)
    : refuseUnknownSource(source, known)
}

const COLUMNS = ['source', 'key', 'state', 'reason', 'settled_at', 'column', 'value', 'service']

async function printCsv(db: Database, filter: FailureFilter, { stdout, signal }: CliCall): Promise<ExitCode> {
  const { iterateFailures } = await import('../../store/row-search.ts')
  const { iterateSkippedCells } = await import('../../store/skipped-cells.ts')
  const print = (lines: readonly (readonly (string | null)[])[]): void => {
    signal.throwIfAborted()
    stdout.write(lines.map(formatCsvLine).join(''))
  }
  print([COLUMNS])
  for await (const page of iterateFailures(db, filter)) print(page.map(toFailedFields))
  for await (const page of iterateSkippedCells(db, filter)) print(page.map(toSkippedFields))
  return Exit.done
}

const toFailedFields = ({ source, key, state, reason, settled_at: at, service }: FailedRow) => [
  source,
  key,
  state,
  reason,
  at.toISOString(),
  null,
  null,
  service ?? null,
]

/** A value that is no text is written as JSON. */
const toSkippedFields = (cell: SkippedRow) => [
  cell.source,
  cell.key,
  cell.state,
  cell.description,
  cell.skipped_at.toISOString(),
  cell.column,
  typeof cell.value === 'string' ? cell.value : JSON.stringify(cell.value),
  cell.service ?? null,
]

/** One record of a CSV file (RFC 4180). A text that a spreadsheet would evaluate as a formula gets a leading quote. */
export function formatCsvLine(fields: readonly (string | null)[]): string {
  return `${fields.map((field) => quoteField(field ?? '')).join(',')}\r\n`
}

function quoteField(field: string): string {
  const plain = /^[=+\-@\t\r]/.test(field) && !/^[+-]?[\d.]+$/.test(field) ? `'${field}` : field
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}

export interface FailureOverview {
  readonly total: number
  readonly reasons: readonly FailureReason[]
  /** Skipped cells by reason, of rows in any state, enriched rows included. */
  readonly cells: readonly SkippedGroup[]
  /** The latest rows. */
  readonly rows: readonly FailedRow[]
}

/** Reasons shown; of the others, only the number is. */
const MAX_REASONS = 25

const STATE_COLUMN = {
  title: 'state',
  text: ({ state }: { readonly state: RowState }) => formatState(state),
  style: ({ state }: { readonly state: RowState }) => stateStyle(state),
}

export function renderFailures(
  { total, reasons, cells, rows }: FailureOverview,
  output: Output,
  now: number,
): string[] {
  const { paint } = output
  if (total === 0) return [`${paint('good', '✓')} No failed rows.`, ...renderSkippedCells(cells, output)]
  const states = [...new Set(reasons.map((reason) => reason.state))]
  const advice = states.map((state) => [formatState(state), FAILURE_ADVICE[state]] as const)
  const isPart = rows.length < total
  return [
    paint('heading', `${pluralize(total, 'row')} could not be enriched`),
    '',
    // Sorted by size: only the rarest are summed up.
    ...renderTable(
      output,
      reasons,
      [
        { title: 'rows', text: ({ rows }) => formatCount(rows), number: true },
        STATE_COLUMN,
        { ...SOURCE_COLUMN, ifDifferent: true },
        { title: 'service', text: ({ service }) => service ?? '', minColumns: 6 },
        { title: 'reason', text: ({ reason }) => reason, minColumns: 12, wraps: true },
      ],
      { max: MAX_REASONS, describeRest: (rest) => describeRarest(rest, 'row') },
    ),
    ...renderSection(output, 'How to fix them', renderFields(output, advice)),
    ...renderSkippedCells(cells, output),
    ...renderSection(
      output,
      isPart ? `Latest ${formatCount(rows.length)} of ${formatCount(total)}` : 'Rows',
      renderTable(output, rows, [
        { title: 'source', text: (row) => row.source, minColumns: 4 },
        { title: 'key', text: (row) => row.key, minColumns: 4 },
        { title: 'service', text: (row) => row.service ?? '', minColumns: 6 },
        { ...STATE_COLUMN, minColumns: 6 },
        { title: 'when', text: (row) => relativeTime(row.settled_at, now), minColumns: 6 },
        { title: 'reason', text: (row) => row.reason ?? '', minColumns: 12, wraps: true },
      ]),
    ),
    ...(isPart ? ['', `${paint('quiet', 'All rows:')} ${paint('type', 'fillrate failures --csv')}`] : []),
  ]
}

/** Values of records that were not written to their cells, in rows of any state. */
function renderSkippedCells(cells: readonly SkippedGroup[], output: Output): string[] {
  const total = cells.reduce((sum, group) => sum + group.rows, 0)
  const advice = SKIP_ADVICE.filter(([reasons]) => cells.some((group) => reasons.includes(group.reason)))
  const lines = advice.flatMap(([, text]) => renderText(output, text))
  return [
    ...renderSkippedSection(`${pluralize(total, 'cell')} skipped`, cells, output, MAX_REASONS),
    ...renderSection(output, 'How to fill them', lines),
  ]
}

/** What a user can do about skipped cells. */
const SKIP_ADVICE: ReadonlyArray<readonly [reasons: readonly SkipReason[], advice: string]> = [
  [
    ['unmapped', 'no_such_label'],
    'Values without an entry: add them to `map`, then `fillrate remap SOURCE`.',
  ],
  [['too_long'], 'Texts that are too long: `sql` cuts them, such as left($value, 40).'],
  [['below_confidence'], 'Too little confidence: lower `minConfidence`, then `fillrate remap SOURCE`.'],
  [
    ['row_rejected'],
    'Rejected rows: correct what the reason names; `fillrate retry` writes them again without a call.',
  ],
]
