import { formatCount, pluralize } from '../../../util/format.ts'
import { FAILURE_ADVICE } from '../../../domain/row.ts'
import { listValues, type SkippedGroup } from '../../../domain/skipped-cell.ts'
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
  return card('failures', 'Failures by reason', [
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
              for ${pluralize(rest.length, 'rarer reason')}
            </p>`,
          html`<p class="sub"><a href="/failures">All ${pluralize(total, 'row')}</a></p>`,
        ],
    data.skippedCells.length > 0 && skippedCellsTable(data.skippedCells),
  ])
}

/** Values that were not written to their cells, by reason: the most frequent first. */
export function skippedCellsTable(groups: readonly SkippedGroup[]): Html {
  const rest = groups.slice(MAX_REASONS)
  const hasValues = groups.some((group) => group.values.length > 0)
  return html`${scrollable(
      'Skipped cells',
      html`<table>
        <caption>
          Skipped cells
        </caption>
        <thead>
          <tr>
            <th scope="col" class="n">cells</th>
            <th scope="col">column</th>
            <th scope="col">reason</th>
            ${hasValues && html`<th scope="col">values</th>`}
            <th scope="col">source</th>
          </tr>
        </thead>
        <tbody>
          ${groups.slice(0, MAX_REASONS).map(
            (group) =>
              html`<tr>
                <td class="n">${formatCount(group.rows)}</td>
                <th scope="row">${group.column}</th>
                <td class="reason">${withCode(group.description)}</td>
                ${hasValues && html`<td class="reason">${listValues(group, valueText)}</td>`}
                <td>${group.source}</td>
              </tr>`,
          )}
        </tbody>
      </table>`,
    )}
    <p class="sub">
      ${
        rest.length > 0 &&
        `and ${pluralize(
          rest.reduce((sum, group) => sum + group.rows, 0),
          'cell',
        )} for ${pluralize(rest.length, 'rarer reason')}; `
      }<code>fillrate failures --csv FILE</code> lists each cell.
    </p>`
}

const MAX_VALUE_LENGTH = 60

function valueText(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > MAX_VALUE_LENGTH ? `${text.slice(0, MAX_VALUE_LENGTH - 1)}…` : text
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
