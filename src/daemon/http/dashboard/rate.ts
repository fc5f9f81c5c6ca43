import { count, counted, duration, percent, perSecond } from '../../../domain/numbers.ts'
import { HOUR_MS, type Board } from '../../../pipeline/board.ts'
import type { Quota } from '../../../pipeline/quotas.ts'
import { callSteps } from './calls.ts'
import { html, type Html, type Part } from './html.ts'
import { badge, bar, number, section, share, when } from './parts.ts'

type Told = NonNullable<Quota['told']>

const LINES_MS = 5 * 60_000

/** The quota as its caller saw it last. */
export function quota({ quotas, at }: Board): Html {
  const body =
    quotas.length === 0
      ? html`<p class="empty">The service has not been called yet, so its limit is not known.</p>`
      : quotas.map((one) => quotaFields(one, at))
  return html`<div id="quota">${body}</div>`
}

function quotaFields({ scope, limit, windowMs, observedAt, told }: Quota, at: number): Html {
  const [host = scope, key] = scope.split(' ')
  const isNow = told?.live === true
  const fields: [string, Part][] = [
    [
      'Limit',
      windowMs === null
        ? `${counted(limit, 'call')}, window ${told?.window_at_most_ms == null ? 'not known yet' : `of at most ${duration(told.window_at_most_ms)}`}`
        : `${counted(limit, 'call')} in ${duration(windowMs)}`,
    ],
    ...(isNow ? windowFields(told, limit, at) : []),
    ...(told === null || told.limit === null ? [] : toldFields(told)),
  ]
  return html`<p class="sub">
      ${host}${key !== undefined && html`, key <code>${key}</code>`} ·
      ${
        isNow
          ? badge('calling now', 'busy')
          : html`not calling; as it was ${when(told?.reported_at ?? new Date(observedAt), at)}`
      }
    </p>
    <dl class="fields">
      ${fields.map(
        ([name, value]) =>
          html`<div>
            <dt>${name}</dt>
            <dd>${value}</dd>
          </div>`,
      )}
    </dl>`
}

function windowFields(told: Told, limit: number, at: number): [string, Part][] {
  const { window_used: used, next_window_at: next } = told
  return [
    [
      'Used in this window',
      html`${count(used)} of ${count(limit)} ${bar([{ share: share(used, limit), look: 'flow' }])}`,
    ],
    ['Next window', next === null ? 'not known' : `in ${duration(Math.max(0, Date.parse(next) - at))}`],
    ['State', told.stall_reason ?? told.state],
  ]
}

const toldFields = (told: Told): [string, Part][] => [
  [
    'Used of what it permitted',
    told.utilisation === null ? '–' : `${percent(told.utilisation)} (${count(told.used)} calls)`,
  ],
  ['Throttled (429)', count(told.throttled)],
]

/** The last hour's calls: a picture, which the page's script makes a live one, and the same as a table. */
export function rate(board: Board): Html {
  return section(
    'rate',
    'Quota and calls',
    html`<div class="columns">
      <div>${quota(board)}</div>
      <figure>
        <figcaption>Calls a second, the last hour</figcaption>
        <div id="chart" class="chart" aria-hidden="true">${picture(board)}</div>
        <div id="calls-table">${callsTable(board)}</div>
      </figure>
    </div>`,
  )
}

export function callsTable({ calls, at }: Board): Html {
  const lines = callSteps(calls, at, { lengthMs: HOUR_MS, stepMs: LINES_MS }).toReversed()
  return html`<details id="calls-details">
    <summary>The same as a table</summary>
    <table>
      <caption>
        Calls in steps of five minutes, the latest first
      </caption>
      <thead>
        <tr>
          <th scope="col">from</th>
          <th scope="col" class="n">answered</th>
          <th scope="col" class="n">throttled</th>
          <th scope="col" class="n">failed</th>
          <th scope="col" class="n">a second</th>
        </tr>
      </thead>
      <tbody>
        ${lines.map(
          (one) =>
            html`<tr>
              <th scope="row">${when(new Date(one.at), at)}</th>
              ${number(one.answered)}${number(one.throttled)}${number(one.failed)}
              <td class="n">
                ${perSecond((one.answered + one.throttled + one.failed) / (LINES_MS / 1_000))}
              </td>
            </tr>`,
        )}
      </tbody>
    </table>
  </details>`
}

/** For where no script runs. */
function picture({ calls, at }: Board): Html {
  const steps = callSteps(calls, at, { lengthMs: HOUR_MS, stepMs: 60_000 })
  const most = Math.max(1, ...steps.map((one) => one.answered + one.throttled + one.failed))
  return html`<svg viewBox="0 0 600 120" preserveAspectRatio="none">
    ${steps.map((one, n) => {
      const height = (116 * (one.answered + one.throttled + one.failed)) / most
      return (
        height > 0 &&
        html`<rect
          class="flow"
          x="${n * 10}"
          y="${(120 - height).toFixed(1)}"
          width="9"
          height="${height.toFixed(1)}"
        />`
      )
    })}
  </svg>`
}
