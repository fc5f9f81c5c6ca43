import { formatCount, pluralize } from '../../../util/format.ts'
import { FAILURE_ADVICE } from '../../../domain/row.ts'
import type { DashboardData } from '../../../actions/dashboard-data.ts'
import type { FailedRow, FailureReason, ReasonFilter } from '../../../store/failures.ts'
import { type Html, type HtmlPart, buildUrl, html, rowUrl } from '../html.ts'
import { card, scrollable, stateBadge, stateLabel, timeAgo } from '../components.ts'

/** Reasons listed in full; of the others, only the rows are counted. */
const MAX_REASONS = 12

export function failuresSection(data: DashboardData): Html {
  const reasons = data.failures.toSorted((a, b) => b.rows - a.rows)
  const total = reasons.reduce((sum, one) => sum + one.rows, 0)
  const rest = reasons.slice(MAX_REASONS)
  return card(
    'failures',
    'Failures by reason',
    total === 0
      ? html`<p class="empty">No failed rows.</p>`
      : [
          reasonsTable(reasons.slice(0, MAX_REASONS)),
          rest.length > 0 &&
            html`<p class="sub">
              and
              ${pluralize(
                rest.reduce((sum, one) => sum + one.rows, 0),
                'row',
              )}
              for ${pluralize(rest.length, 'more reason')}
            </p>`,
          html`<p class="sub"><a href="/failures">All ${pluralize(total, 'row')}</a></p>`,
        ],
  )
}

const reasonsTable = (reasons: readonly FailureReason[]): Html =>
  scrollable(
    'Failures by reason',
    html`<table>
      <caption class="sr">
        Reasons why rows were not enriched
      </caption>
      <thead>
        <tr>
          <th scope="col" class="n">rows</th>
          <th scope="col">reason</th>
          <th scope="col">state</th>
          <th scope="col">source</th>
        </tr>
      </thead>
      <tbody>
        ${reasons.map(
          ({ source, state, reason, rows }) =>
            html`<tr>
              <td class="n">${formatCount(rows)}</td>
              <td class="reason">
                <a href="${buildUrl('/failures', { source, state, reason })}"
                  >${reason === '' ? 'no reason given' : reason}</a
                >
              </td>
              <td>${stateBadge(state)}</td>
              <td>${source}</td>
            </tr>`,
        )}
      </tbody>
    </table>`,
  )

/** The rows that failed for one reason, or for any. */
export function failuresPage(
  filter: ReasonFilter,
  rows: readonly FailedRow[],
  options: { readonly now: number; readonly full: boolean },
): Html {
  const { source, state, reason } = filter
  const last = rows.at(-1)
  const next =
    options.full && last !== undefined
      ? buildUrl('/failures', { source, state, reason, after: JSON.stringify([last.source, last.key]) })
      : null
  return html`<h1>Rows not enriched</h1>
    ${card('failures', reason ?? (state === null ? 'All reasons' : stateLabel(state)), [
      html`<dl class="fields">
        ${source !== null && fieldItem('Source', source)}
        ${state !== null && [fieldItem('State', stateBadge(state)), fieldItem('What to do', withCode(FAILURE_ADVICE[state]))]}
      </dl>`,
      rows.length === 0
        ? html`<p class="empty">No such rows.</p>`
        : scrollable(
            'Rows',
            html`<table>
              <caption class="sr">
                Rows not enriched
              </caption>
              <thead>
                <tr>
                  <th scope="col">row</th>
                  ${state === null && html`<th scope="col">state</th>`}
                  <th scope="col">finished</th>
                  <th scope="col">reason</th>
                </tr>
              </thead>
              <tbody>
                ${rows.map(
                  (row) =>
                    html`<tr>
                      <th scope="row"><a href="${rowUrl(row)}">${row.source} ${row.key}</a></th>
                      ${state === null && html`<td>${stateBadge(row.state)}</td>`}
                      <td>${timeAgo(row.settled_at, options.now)}</td>
                      <td class="reason">${row.reason}</td>
                    </tr>`,
                )}
              </tbody>
            </table>`,
          ),
      next !== null && html`<p><a rel="next" href="${next}">Next page</a></p>`,
    ])}`
}

const fieldItem = (name: string, value: HtmlPart): Html =>
  html`<div>
    <dt>${name}</dt>
    <dd>${value}</dd>
  </div>`

/** Formats `code` spans in text. */
export const withCode = (text: string): HtmlPart =>
  text.split('`').map((part, n) => (n % 2 === 1 ? html`<code>${part}</code>` : part))
