import { formatCount, pluralize, formatDuration } from '../../../util/format.ts'
import { FAILURE_STATES } from '../../../domain/row.ts'
import type { SourceOverview } from '../../../actions/dashboard-data.ts'
import { funnelTable } from '../funnel.ts'
import { buildUrl, html, type Html } from '../html.ts'
import { badge, shareBar, percentOfTotal, card, ratio, sparkline, timeAgo } from '../components.ts'

/** One source: fill rates of its columns, states of its rows, and whether it is paused. */
export function sourceCard(source: SourceOverview, now: number): Html {
  const { name, table, pause } = source
  const picked = Object.values(source.states).reduce((sum, rows) => sum + rows, 0)
  return card(
    `source-${name}`,
    name,
    html`<p class="sub">
        ${source.kind} · <code>${table}</code>${
          pause !== null &&
          html` · ${badge('paused', 'warn')} ${timeAgo(pause.paused_at, now)}, by ${pause.paused_by}: runs
          skip it`
        }
      </p>
      ${fillRateTable(source, now)}
      ${
        picked === 0
          ? html`<p class="empty">No rows picked yet. Run <code>fillrate run ${name}</code>.</p>`
          : funnelTable(`Rows of ${name}, from picked to enriched`, source.states, (state) =>
              (FAILURE_STATES as readonly string[]).includes(state)
                ? buildUrl('/failures', { source: name, state })
                : null,
            )
      }`,
    pauseButton(source),
  )
}

function pauseButton({ name, pause }: SourceOverview): Html {
  const verb = pause === null ? 'pause' : 'resume'
  return html`<form method="post" action="/sources/${encodeURIComponent(name)}/${verb}">
    <button class="quiet-button">
      ${verb === 'pause' ? 'Pause' : 'Resume'}<span class="sr"> ${name}</span>
    </button>
  </form>`
}

function fillRateTable({ fillRates: coverage, name, columns }: SourceOverview, now: number): Html {
  const first = coverage[0]
  const last = coverage.at(-1)
  if (first === undefined || last === undefined)
    return html`<p class="empty">Fill rates are counted during the first run.</p>`
  const since = formatDuration(last.at.getTime() - first.at.getTime())
  return html`<table class="coverage">
    <caption>
      Fill rates of ${pluralize(last.eligible, 'row')}, counted
      ${timeAgo(last.at, now)}${coverage.length > 1 && html`; change over ${since}`}
    </caption>
    <thead>
      <tr>
        <th scope="col">column</th>
        <th scope="col" class="wide">filled</th>
        <th scope="col" class="n">share</th>
        <th scope="col" class="n">change</th>
        <th scope="col" class="trend">trend</th>
      </tr>
    </thead>
    <tbody>
      ${columns.map((column) => columnRow(column, coverage, name))}
    </tbody>
  </table>`
}

function columnRow(column: string, coverage: SourceOverview['fillRates'], name: string): Html {
  const known = coverage.filter((one) => one.filled[column] !== undefined)
  const shares = known.map((one) => ratio(one.filled[column] ?? 0, one.eligible))
  const [before = 0] = shares
  const now = shares.at(-1) ?? 0
  const last = known.at(-1)
  const gain = now - before
  return html`<tr>
    <th scope="row"><span title="${`${name}.${column}`}">${column}</span></th>
    <td class="wide">
      ${shareBar([
        { share: Math.min(before, now), look: 'before' },
        { share: Math.max(0, gain), look: 'good' },
      ])}<span class="sr">${formatCount(last?.filled[column] ?? 0)} rows</span>
    </td>
    <td class="n">${percentOfTotal(last?.filled[column] ?? 0, last?.eligible ?? 0)}</td>
    <td class="n ${gain > 0 ? 'up' : gain < 0 ? 'down' : ''}">${formatPoints(gain)}</td>
    <td class="trend">${sparkline(trendPoints(known, shares))}</td>
  </tr>`
}

/** `+31.2` in percentage points. */
function formatPoints(gain: number): string {
  const rounded = (gain * 100).toFixed(1)
  if (Number(rounded) === 0) return '±0'
  return gain > 0 ? `+${rounded}` : rounded.replace('-', '−')
}

/** Maximum points of a trend line, which is 74 pixels wide. */
const MAX_TREND_POINTS = 60

/** Points at their true times; heights between the minimum and the maximum, enlarged at most ten times. */
function trendPoints(
  known: SourceOverview['fillRates'],
  shares: readonly number[],
): ReadonlyArray<readonly [number, number]> {
  const times = known.map((one) => one.at.getTime())
  const begin = times[0] ?? 0
  const length = Math.max(1, (times.at(-1) ?? 0) - begin)
  const low = Math.min(...shares)
  const height = Math.max(0.1, Math.max(...shares) - low)
  const every = Math.max(1, Math.ceil(known.length / MAX_TREND_POINTS))
  return shares.flatMap((one, n) =>
    n % every === 0 || n === shares.length - 1
      ? [[((times[n] ?? 0) - begin) / length, (one - low) / height] as const]
      : [],
  )
}
