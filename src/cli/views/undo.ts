import type { UndoReport } from '../../actions/undo/report.ts'
import { type Output, wrapText } from '../terminal.ts'
import { type SuggestedCommand, renderCounts, renderSuggestions, renderTable } from './layout.ts'
import { formatCount, formatDuration, pluralize } from '../../util/format.ts'

/** Rows listed by name; `--json` has them all. */
const SHOWN = 20

/** What was taken back, what was not and why, and what can be done about either. */
export function renderUndo(report: UndoReport, output: Output): string[] {
  const { changes, undoes } = report
  if (changes.total === 0) return [`Run ${undoes} has written nothing.`]
  const { restored, kept, row_missing, rejected, undone_before, not_configured, remaining } = changes
  const verb = report.writes_again ? 'written again' : 'taken back'
  return [
    ...wrapText(headline(report, output), output.textColumns),
    '',
    ...renderCounts(
      [
        [restored, report.dry_run ? `would be ${verb}` : verb],
        [undone_before, `taken back before${by(report.undone_by)}`],
        [kept, 'stay: each of their cells was changed since'],
        [row_missing, 'are no more: their rows were deleted'],
        [rejected, 'could not be taken back: the database does not allow the old values'],
        [not_configured, 'left alone: their source is not configured any more'],
        [
          remaining,
          report.status === 'interrupted'
            ? 'not looked at yet'
            : 'left for later: other transactions have locked their rows',
        ],
      ],
      [changes.total, `writes of run ${undoes}`],
      output,
    ),
    ...columnLines(report, output),
    ...keptLines(report, output),
    ...failedLines(report, output),
    ...renderSuggestions(suggestAfterUndo(report), output),
  ]
}

function headline(
  { run, undoes, writes_again: again, dry_run: dry, status, duration_ms: ms }: UndoReport,
  { paint }: Output,
): string {
  const what = again ? `the undo that was run ${undoes}` : `run ${undoes}`
  if (dry) return `${paint('heading', 'Dry run:')} taking back ${what} would do this. Nothing was written.`
  if (run === null) return `Nothing is left to take back of ${what}.`
  const ended =
    status === 'interrupted' ? paint('warn', 'was interrupted taking back') : paint('good', 'took back')
  return `${paint('heading', `Run ${run}`)} ${ended} ${what} ${status === 'interrupted' ? 'after' : 'in'} ${formatDuration(ms)}`
}

const by = (runs: readonly number[]): string =>
  runs.length === 0 ? '' : `, by run ${runs.slice(0, 5).join(', ')}${runs.length > 5 ? ', …' : ''}`

function columnLines({ columns, cells, dry_run: dry }: UndoReport, output: Output): string[] {
  if (columns.length === 0) return []
  const several = new Set(columns.map((one) => one.source)).size > 1
  return [
    '',
    ...renderTable(
      columns,
      [
        ...(several
          ? [{ title: 'source', text: (one: (typeof columns)[number]) => one.source, least: 6 }]
          : []),
        { title: 'column', text: (one) => one.column, least: 8 },
        {
          title: dry ? 'would be restored' : 'restored',
          text: (one) => formatCount(one.restored),
          number: true,
        },
        { title: 'stays', text: (one) => (one.kept === 0 ? '' : formatCount(one.kept)), number: true },
      ],
      output,
    ),
    ...(cells.touched > 0
      ? [output.paint('quiet', `and ${pluralize(cells.touched, 'cell')} of touched columns`)]
      : []),
  ]
}

function keptLines({ kept }: UndoReport, output: Output): string[] {
  if (kept.length === 0) return []
  const { paint } = output
  return [
    '',
    paint('heading', `${pluralize(kept.length, 'row')} in which something stays as it is`),
    ...renderTable(
      kept.slice(0, SHOWN),
      [
        { title: 'source', text: (row) => row.source, least: 6 },
        { title: 'key', text: (row) => row.key, least: 8 },
        { title: 'columns', text: (row) => row.columns.join(', '), least: 10 },
        {
          title: 'changed since',
          text: (row) => (row.written_by === null ? 'not by Fillrate' : `by run ${row.written_by}`),
        },
      ],
      output,
    ),
    ...more(kept.length, output),
  ]
}

function failedLines({ failed }: UndoReport, output: Output): string[] {
  const rejected = failed.filter((row) => row.outcome === 'rejected')
  if (rejected.length === 0) return []
  return [
    '',
    output.paint('heading', `${pluralize(rejected.length, 'row')} that could not be taken back`),
    ...renderTable(
      rejected.slice(0, SHOWN),
      [
        { title: 'source', text: (row) => row.source, least: 6 },
        { title: 'key', text: (row) => row.key, least: 8 },
        { title: 'reason', text: (row) => row.reason ?? '', least: 12 },
      ],
      output,
    ),
    ...more(rejected.length, output),
  ]
}

const more = (all: number, { paint }: Output): string[] =>
  all > SHOWN ? [paint('quiet', `and ${formatCount(all - SHOWN)} more; --json has them`)] : []

/** Pure. */
export function suggestAfterUndo(report: UndoReport): SuggestedCommand[] {
  const { run, undoes, changes, dry_run: dry, waiting, kept, writes_again: again, undone_by: before } = report
  const steps: SuggestedCommand[] = []
  if (dry && changes.restored > 0) steps.push([`fillrate undo ${undoes}`, 'takes it back'])
  if (changes.remaining > 0 || (changes.rejected > 0 && !dry))
    steps.push([
      `fillrate undo ${undoes}`,
      changes.remaining > 0 ? 'goes on with the rest' : 'tries the rest again, once the database allows it',
    ])
  const later = Math.max(0, ...kept.map((row) => row.written_by ?? 0))
  if (later > 0)
    steps.push([
      `fillrate undo ${later}`,
      'a later run wrote some of the cells that stay: take it back first',
    ])
  const undo = run ?? before.at(-1)
  if (!dry && undo !== undefined)
    steps.push([
      `fillrate undo ${undo}`,
      again ? 'takes it back again' : 'writes it again: an undo can be undone',
    ])
  if (run !== null && !again)
    steps.push([
      'fillrate retry --state undone',
      'has these rows written again by the next run; without it they stay until their inputs change or their answers are due',
    ])
  if (waiting > 0)
    steps.push([
      'fillrate status',
      `${pluralize(waiting, 'row')} of run ${undoes} still wait, and will be written when their answers come`,
    ])
  return steps
}
