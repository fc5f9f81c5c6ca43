import type { SpendAmount } from '../../domain/report/shape.ts'
import { Run } from '../../domain/run.ts'
import { describeRunKind, readTotal, runOutcome } from '../../domain/stored-run.ts'
import type { StoredRun } from '../../store/runs.ts'
import { createParser, defineCommand } from '../command.ts'
import { readConfig, useDatabase } from '../settings.ts'
import type { Output, TextStyle } from '../terminal.ts'
import { formatCount, formatDuration, formatMoney, relativeTime, foldNames } from '../../util/text.ts'
import { formatState } from '../../domain/row.ts'
import { parseWholeFrom } from '../options.ts'
import { renderTable } from '../views/table.ts'

export const runsCommand = defineCommand(
  createParser('runs')
    .summary('lists the latest runs and their results')
    .description(
      'The latest runs, newest first, with the rows that they picked and enriched, and their lookups.',
    )
    .option('--limit <N>', 'maximum number of runs; default: 20', parseWholeFrom(1), 20),
  {
    group: 'inspect',
    examples: [['fillrate runs --limit 100', '']],

    async handler(call) {
      const store = await import('../../store/runs.ts')
      const { readRunSpends } = await import('../../actions/spend.ts')
      const config = await readConfig(call)
      const db = await useDatabase(call)
      const found = await store.listRuns(db, call.flags.limit)
      const ids = found.map(({ id }) => id)
      const spends = await readRunSpends(db, ids, config)
      const runs = found.map((run) => ({ ...run, spend: spends.get(run.id) ?? null }))
      const undone = await store.readUndone(db)
      return {
        json: { runs },
        text: () => (runs.length === 0 ? ['No run yet.'] : renderRuns(runs, undone, call.stdout, call.now())),
      }
    },
  },
)

type ListedRun = StoredRun & { readonly spend: SpendAmount | null }

const renderRuns = (
  runs: readonly ListedRun[],
  undone: ReadonlyMap<number, number>,
  output: Output,
  now: number,
): string[] =>
  renderTable(output, runs, [
    { title: 'run', text: (run) => String(run.id), number: true },
    {
      title: 'state',
      text: (run) => `${formatState(runOutcome(run))}${undone.has(run.id) ? ', undone' : ''}`,
      style: (run) => (runOutcome(run) === 'budget_reached' ? 'warn' : STATE_STYLES[run.state]),
    },
    { title: 'trigger', text: describeRunKind },
    { title: 'started', text: (run) => relativeTime(run.started_at, now) },
    {
      title: 'took',
      text: ({ started_at: from, finished_at: to }) =>
        to === null ? '' : formatDuration(to.getTime() - from.getTime()),
      number: true,
      dropOrder: 2,
    },
    { title: 'sources', text: (run) => foldNames(run.sources), minColumns: 8, dropOrder: 4 },
    { title: 'picked', text: (run) => formatTotal(run, 'picked'), number: true, dropOrder: 3 },
    // The rows of a dry run were not enriched.
    {
      title: 'enriched',
      text: (run) => (run.options.dry ? '' : formatTotal(run, 'enriched')),
      number: true,
      dropOrder: 5,
    },
    {
      title: 'lookups',
      text: ({ spend }) => (spend === null || spend.calls === 0 ? '' : formatCount(spend.lookups)),
      number: true,
      dropOrder: 1,
    },
    {
      title: 'cost',
      text: ({ spend }) => (spend?.cost && spend.lookups > 0 ? formatMoney(spend.cost) : ''),
      number: true,
      dropOrder: 1,
    },
    { title: 'reason', text: (run) => run.reason ?? '', minColumns: 12, dropOrder: 6 },
  ])

const STATE_STYLES = {
  [Run.running]: 'type',
  [Run.completed]: 'good',
  [Run.interrupted]: 'warn',
  [Run.failed]: 'bad',
} as const satisfies Record<string, TextStyle>

function formatTotal(run: StoredRun, name: string): string {
  const count = readTotal(run.totals, 'rows', name)
  return count === null ? '' : formatCount(count)
}
