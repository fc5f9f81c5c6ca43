import { formatState, ROW_STATES, type RowState } from '../../domain/row.ts'
import { formatCount } from '../../util/format.ts'
import { percentOfTotal, ratio, shareBar, stateBadge, stateTone } from './components.ts'
import { html, type Html } from './html.ts'

/** Rows in these states together; by default, in all. */
export const countRows = (
  counts: Readonly<Record<RowState, number>>,
  states: readonly RowState[] = ROW_STATES,
): number => states.reduce((sum, state) => sum + counts[state], 0)

/** The rows by state: the lines add up to the last one. @param linkOf null: the rows are not listed */
export function statesTable(
  caption: string,
  counts: Readonly<Record<RowState, number>>,
  linkOf: (state: RowState) => string | null,
): Html {
  const picked = countRows(counts)
  const line = (state: RowState): Html => {
    const link = linkOf(state)
    return html`<tr>
      <th scope="row">
        ${link === null ? stateBadge(state) : html`<a class="badge ${stateTone(state)}" href="${link}">${formatState(state)}</a>`}
      </th>
      <td class="n">${formatCount(counts[state])}</td>
      <td class="wide">
        <div>
          ${shareBar([{ share: ratio(counts[state], picked), look: stateTone(state) }])}
          <span class="n">${percentOfTotal(counts[state], picked)}</span>
        </div>
      </td>
    </tr>`
  }
  return html`<table class="states">
    <caption class="sr">
      ${caption}
    </caption>
    <thead class="sr">
      <tr>
        <th scope="col">state</th>
        <th scope="col">rows</th>
        <th scope="col">share</th>
      </tr>
    </thead>
    <tbody>
      ${ROW_STATES.filter((state) => counts[state] > 0).map(line)}
      <tr class="sum">
        <th scope="row">picked</th>
        <td class="n">${formatCount(picked)}</td>
        <td></td>
      </tr>
    </tbody>
  </table>`
}
