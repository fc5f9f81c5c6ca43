import { duration } from '../../../domain/numbers.ts'
import type { Board, RunBoard } from '../../../pipeline/board.ts'
import { html, type Html } from './html.ts'
import { number, scroll, section, stateBadge, toneOf, when } from './parts.ts'
import { totalIn } from './totals.ts'

export function runs(board: Board): Html {
  if (board.runs.length === 0)
    return section(
      'runs',
      'Runs',
      html`<p class="empty">
        No run yet. <code>fillrate plan</code> tells what one would ask and cost,
        <code>fillrate run</code> makes one.
      </p>`,
    )
  return section('runs', 'Runs', [timeline(board), runsTable(board)])
}

const endOf = (run: RunBoard, now: number): number => run.finished_at?.getTime() ?? now

/** What is not a run like most. */
export function kindOf({
  options: { dry, undoes, remap },
  trigger,
}: RunBoard | Board['runs'][number]): string {
  if (undoes !== undefined) return `undo of ${undoes}`
  if (remap === true) return 'remap'
  return dry === true ? 'dry' : trigger
}

/** Each run in the first lane that is free, drawn on one line of time. Pure. */
export function lanes(
  list: ReadonlyArray<{ readonly from: number; readonly to: number }>,
  least: number,
): number[] {
  const ends: number[] = []
  return list.map(({ from, to }) => {
    const free = ends.findIndex((end) => end <= from)
    const lane = free === -1 ? ends.length : free
    ends[lane] = Math.max(to, from + least)
    return lane
  })
}

const WIDTH = 1_000
const LANE = 14

function timeline({ runs: list, at }: Board): Html {
  const ordered = list.toReversed()
  const begin = ordered[0]?.started_at.getTime() ?? at
  const length = Math.max(1, at - begin)
  const spans = ordered.map((run) => ({ from: run.started_at.getTime(), to: endOf(run, at) }))
  const placed = lanes(spans, (length * 6) / WIDTH)
  const height = LANE * (Math.max(0, ...placed) + 1)
  return html`<figure class="timeline" aria-hidden="true">
    <svg viewBox="0 0 ${WIDTH} ${height}" height="${height}" preserveAspectRatio="none">
      ${ordered.map((run, n) => {
        const { from = begin, to = at } = spans[n] ?? {}
        const x = ((from - begin) / length) * (WIDTH - 6)
        const width = Math.max(5, ((to - from) / length) * WIDTH)
        return html`<rect
          class="${toneOf(run.state)}"
          x="${x.toFixed(1)}"
          y="${(placed[n] ?? 0) * LANE + 1}"
          width="${Math.min(width, WIDTH - x).toFixed(1)}"
          height="${LANE - 2}"
          ><title>run ${run.id}, ${run.state}, ${duration(to - from)}</title></rect
        >`
      })}
    </svg>
    <figcaption><span>${when(new Date(begin), at)}</span><span>now</span></figcaption>
  </figure>`
}

function runsTable({ runs: list, at }: Board): Html {
  return scroll(
    'Runs',
    html`<table class="runs">
      <caption class="sr">
        The latest runs and what they did
      </caption>
      <thead>
        <tr>
          <th scope="col">run</th>
          <th scope="col">state</th>
          <th scope="col">kind</th>
          <th scope="col">sources</th>
          <th scope="col">started</th>
          <th scope="col" class="n">took</th>
          <th scope="col" class="n">picked</th>
          <th scope="col" class="n">enriched</th>
          <th scope="col" class="n">cells</th>
          <th scope="col" class="n">asked</th>
          <th scope="col" class="n">calls</th>
          <th scope="col">reason</th>
        </tr>
      </thead>
      <tbody>
        ${list.map((run) => runLine(run, at))}
      </tbody>
    </table>`,
  )
}

function runLine(run: RunBoard, at: number): Html {
  const { totals, states } = run
  const picked =
    states === null ? totalIn(totals, 'rows', 'picked') : Object.values(states).reduce((a, b) => a + b, 0)
  const calls = ['person', 'company', 'bulk'].map((name) => totalIn(totals, 'requests', name))
  // What a dry run would have enriched could be taken for done.
  const dry = run.options.dry === true
  return html`<tr>
    <th scope="row"><a href="/runs/${run.id}">${run.id}</a></th>
    <td>${stateBadge(run.state)}</td>
    <td>${kindOf(run)}</td>
    <td>${run.sources.join(', ')}</td>
    <td>${when(run.started_at, at)}</td>
    <td class="n">${duration(endOf(run, at) - run.started_at.getTime())}</td>
    ${number(picked)}${number(dry ? null : (states?.enriched ?? totalIn(totals, 'rows', 'enriched')))}${number(dry ? null : totalIn(totals, 'cells', 'written'))}
    ${number(totalIn(totals, 'lookups', 'asked'))}${number(calls.every((n) => n === null) ? null : calls.reduce<number>((a, n) => a + (n ?? 0), 0))}
    <td class="reason">${run.reason}</td>
  </tr>`
}
