import { ConfigProblems } from '../../config/problems.ts'
import { Run, runOutcome } from '../../domain/run.ts'
import type { SpendAmount } from '../../domain/spend.ts'
import type { StoredRun } from '../../store/runs.ts'
import { DATABASE_VARIABLES, Exit, createParser, defineCommand } from '../command.ts'
import { readConfigOrProblems, withDatabase } from '../settings.ts'
import { type TextStyle, writeJson } from '../terminal.ts'
import { formatCount, formatDuration, formatMoney, relativeTime } from '../../util/format.ts'
import { formatState } from '../../domain/row.ts'
import { foldNames } from '../../util/text.ts'
import { choiceOption, formatChoices, wholeNumberOption } from '../options.ts'
import { renderTable } from '../views/layout.ts'

export const runsCommand = defineCommand(
  createParser('runs')
    .summary('lists the latest runs and their results')
    .description(
      'The latest runs, newest first, with the rows that they picked and enriched, and their lookups.',
    )
    .addOption(
      choiceOption(
        '--state <STATE>',
        `runs in this state: ${formatChoices(Object.values(Run))}`,
        Object.values(Run),
        null,
      ),
    )
    .addOption(wholeNumberOption('--limit <N>', 'maximum number of runs; default: 20', 1, 20)),
  {
    group: 'inspect',
    examples: [['fillrate runs --state failed', '']],
    environment: DATABASE_VARIABLES,

    async handler(invocation, context) {
      const { flags } = invocation
      const { stdout, now } = context
      const store = await import('../../store/runs.ts')
      const { readRunSpends } = await import('../../actions/spend.ts')
      const config = await readConfigOrProblems(invocation, context)
      const price = config instanceof ConfigProblems ? null : config.price
      const list = await withDatabase(context, async (db) => {
        const runs = await store.listRuns(db, flags.limit, flags.state)
        const ids = runs.map(({ id }) => id)
        const spends = await readRunSpends(db, ids, price)
        return runs.map((run) => ({ ...run, spend: spends.get(run.id) ?? null }))
      })
      if (flags.json) {
        writeJson(stdout, { runs: list })
        return Exit.done
      }
      if (list.length === 0) {
        stdout.line(flags.state === null ? 'No run yet.' : `No run is ${flags.state}.`)
        return Exit.done
      }
      const lines = renderTable(
        list,
        [
          { title: 'run', text: (run) => String(run.id), number: true },
          {
            title: 'state',
            text: (run) => formatState(runOutcome(run)),
            style: (run) => (runOutcome(run) === 'budget_reached' ? 'warn' : STATE_STYLES[run.state]),
          },
          { title: 'trigger', text: describeTrigger },
          { title: 'started', text: (run) => relativeTime(run.started_at, now()) },
          { title: 'took', text: tookOf, number: true, dropOrder: 2 },
          { title: 'sources', text: (run) => foldNames(run.sources), minColumns: 8, dropOrder: 4 },
          {
            title: 'picked',
            text: (run) => numberIn(run.totals, 'rows', 'picked'),
            number: true,
            dropOrder: 3,
          },
          { title: 'enriched', text: enrichedOf, number: true, dropOrder: 5 },
          {
            title: 'lookups',
            text: ({ spend }) => (spend === null || spend.calls === 0 ? '' : formatCount(spend.lookups)),
            number: true,
            dropOrder: 1,
          },
          ...(price !== null
            ? [
                {
                  title: 'cost',
                  text: ({ spend }: { readonly spend: SpendAmount | null }) =>
                    spend?.cost && spend.lookups > 0 ? formatMoney(spend.cost) : '',
                  number: true,
                  dropOrder: 1,
                },
              ]
            : []),
          { title: 'reason', text: (run) => run.reason ?? '', minColumns: 12, dropOrder: 6 },
        ],
        stdout,
      )
      stdout.lines(lines)
      return Exit.done
    },
  },
)

const STATE_STYLES = {
  [Run.running]: 'type',
  [Run.completed]: 'good',
  [Run.interrupted]: 'warn',
  [Run.failed]: 'bad',
} as const satisfies Record<string, TextStyle>

/** What started a run, and its kind if it is not an ordinary one. */
function describeTrigger({ trigger, options: { dry, undoes, remap } }: StoredRun): string {
  if (undoes !== undefined) return `undo of ${undoes}`
  if (remap) return 'remap'
  return dry ? `${trigger}, dry` : trigger
}

const tookOf = (run: StoredRun): string =>
  run.finished_at === null ? '' : formatDuration(run.finished_at.getTime() - run.started_at.getTime())

/** Empty for a dry run, whose rows were not enriched. */
const enrichedOf = (run: StoredRun): string =>
  run.options.dry ? '' : numberIn(run.totals, 'rows', 'enriched')

/** A number out of a run's totals, which an older version may have stored in another shape. */
function numberIn(totals: unknown, part: string, name: string): string {
  const inPart = isObject(totals) ? totals[part] : undefined
  const value = isObject(inPart) ? inPart[name] : undefined
  return typeof value === 'number' ? formatCount(value) : ''
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null
