import { count, counted } from '../../../domain/numbers.ts'
import { FAILURE_HELP } from '../../../pipeline/failure-help.ts'
import type { Board } from '../../../pipeline/board.ts'
import type { BehindFilter, FailedRow, FailureReason } from '../../../store/failures.ts'
import { address, html, type Html, type Part } from './html.ts'
import { scroll, section, stateBadge, when, words } from './parts.ts'
import { rowAddress } from './row-address.ts'

/** Reasons shown at the most: of more, those with the fewest rows are only counted. */
const REASONS = 12

export function failures(board: Board): Html {
  const reasons = board.failures.toSorted((a, b) => b.rows - a.rows)
  const total = reasons.reduce((sum, one) => sum + one.rows, 0)
  const rest = reasons.slice(REASONS)
  return section(
    'failures',
    'Failures by reason',
    total === 0
      ? html`<p class="empty">No row has failed.</p>`
      : [
          reasonsTable(reasons.slice(0, REASONS)),
          rest.length > 0 &&
            html`<p class="sub">
              and
              ${counted(
                rest.reduce((sum, one) => sum + one.rows, 0),
                'row',
              )}
              for ${counted(rest.length, 'more reason')}
            </p>`,
          html`<p class="sub"><a href="/failures">All ${counted(total, 'row')}</a></p>`,
        ],
  )
}

const reasonsTable = (reasons: readonly FailureReason[]): Html =>
  scroll(
    'Failures by reason',
    html`<table>
      <caption class="sr">
        Why rows could not be enriched
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
              <td class="n">${count(rows)}</td>
              <td class="reason">
                <a href="${address('/failures', { source, state, reason })}"
                  >${reason === '' ? 'no reason told' : reason}</a
                >
              </td>
              <td>${stateBadge(state)}</td>
              <td>${source}</td>
            </tr>`,
        )}
      </tbody>
    </table>`,
  )

/** The page of the rows behind one reason, or behind all. */
export function failuresPage(
  filter: BehindFilter,
  rows: readonly FailedRow[],
  options: { readonly now: number; readonly full: boolean },
): Html {
  const { source, state, reason } = filter
  const last = rows.at(-1)
  const next =
    options.full && last !== undefined
      ? address('/failures', { source, state, reason, after: JSON.stringify([last.source, last.key]) })
      : null
  return html`<h1>Rows that could not be enriched</h1>
    ${section('failures', reason ?? (state === null ? 'All of them' : words(state)), [
      html`<dl class="fields">
        ${source !== null && field('Source', source)}
        ${state !== null && [field('State', stateBadge(state)), field('What becomes of them', code(FAILURE_HELP[state]))]}
      </dl>`,
      rows.length === 0
        ? html`<p class="empty">None any more.</p>`
        : scroll(
            'Rows',
            html`<table>
              <caption class="sr">
                Rows that could not be enriched
              </caption>
              <thead>
                <tr>
                  <th scope="col">row</th>
                  ${state === null && html`<th scope="col">state</th>`}
                  <th scope="col">when</th>
                  <th scope="col">reason</th>
                </tr>
              </thead>
              <tbody>
                ${rows.map(
                  (row) =>
                    html`<tr>
                      <th scope="row"><a href="${rowAddress(row)}">${row.source} ${row.key}</a></th>
                      ${state === null && html`<td>${stateBadge(row.state)}</td>`}
                      <td>${when(row.settled_at, options.now)}</td>
                      <td class="reason">${row.reason}</td>
                    </tr>`,
                )}
              </tbody>
            </table>`,
          ),
      next !== null && html`<p><a rel="next" href="${next}">More of them</a></p>`,
    ])}`
}

const field = (name: string, value: Part): Html =>
  html`<div>
    <dt>${name}</dt>
    <dd>${value}</dd>
  </div>`

/** Text with `code` in it. */
export const code = (text: string): Part =>
  text.split('`').map((part, n) => (n % 2 === 1 ? html`<code>${part}</code>` : part))
