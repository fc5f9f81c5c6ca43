import { count, counted } from '../../../domain/numbers.ts'
import { Run } from '../../../domain/run.ts'
import type { Board, RunBoard } from '../../../pipeline/board.ts'
import { html, type Html, type Part } from './html.ts'
import { share, when, type Tone } from './parts.ts'
import { totalIn } from './totals.ts'

/** At a glance: is it working, and what wants somebody to act. */
export function verdict(board: Board): Html {
  const troubles = troublesOf(board)
  const [tone, headline] = headlineOf(board)
  return html`<section
    id="verdict"
    class="verdict ${troubles.some((one) => one.tone === 'bad') ? 'bad' : tone}"
    aria-label="How it goes"
  >
    <p class="headline">${headline}</p>
    ${
      troubles.length > 0 &&
      html`<ul>
        ${troubles.map((one) => html`<li class="${one.tone}">${one.text}</li>`)}
      </ul>`
    }
  </section>`
}

function headlineOf({ runs, at }: Board): [Tone, Part] {
  const live = runs.filter((run) => run.alive)
  const [first] = live
  if (first !== undefined)
    return ['busy', live.length === 1 ? underWay(first) : `${count(live.length)} runs are under way`]
  const [last] = runs
  if (last === undefined) return ['quiet', 'Nothing has run yet.']
  const enriched = totalIn(last.totals, 'rows', 'enriched')
  const picked = totalIn(last.totals, 'rows', 'picked')
  const did =
    enriched !== null && picked !== null
      ? picked === 0
        ? ' and found nothing to do'
        : ` and enriched ${count(enriched)} of ${counted(picked, 'row')}`
      : ''
  return [
    last.state === Run.completed ? 'good' : last.state === Run.failed ? 'bad' : 'warn',
    html`Idle. <a href="/runs/${last.id}">Run ${last.id}</a> ${last.state}
      ${when(last.finished_at ?? last.started_at, at)}${did}.`,
  ]
}

function underWay(run: RunBoard): Html {
  const rows = Object.values(run.states ?? {}).reduce((sum, n) => sum + n, 0)
  const settled = rows - (run.states?.waiting ?? 0)
  return html`<a href="/runs/${run.id}">Run ${run.id}</a> is under way: ${count(settled)} of
    ${counted(rows, 'row')} settled (${Math.floor(share(settled, rows) * 100)}%).`
}

function troublesOf({ runs, jobs, sources, quotas }: Board): { tone: Tone; text: Part }[] {
  const [last] = runs
  const overdue = jobs.reduce((sum, group) => sum + group.overdue, 0)
  const inDoubt = jobs.find((group) => group.state === 'in_doubt')?.jobs ?? 0
  const paused = sources.filter((source) => source.pause !== null).map((source) => source.name)
  const [quota] = quotas
  return [
    ...(last?.state === Run.failed && last.reason !== null
      ? [{ tone: 'bad' as const, text: `The last run failed: ${last.reason}` }]
      : []),
    ...(overdue > 0
      ? [
          {
            tone: 'bad' as const,
            text: `${counted(overdue, 'job')} past the deadline, and nobody is there to give them up.`,
          },
        ]
      : []),
    ...(inDoubt > 0
      ? [
          {
            tone: 'warn' as const,
            text: `${counted(inDoubt, 'job')} in doubt: it is unknown whether the submission arrived; not sent again before the deadline.`,
          },
        ]
      : []),
    ...(paused.length > 0 ? [{ tone: 'warn' as const, text: `Paused: ${paused.join(', ')}.` }] : []),
    ...(quota?.told?.shared_key === true && quota.told.live
      ? [{ tone: 'warn' as const, text: 'Another client seems to spend the same key.' }]
      : []),
  ]
}
