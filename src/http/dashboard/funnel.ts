import { formatState, ROW_STATE_FACTS, ROW_STATES, ROW_STEPS } from '../../domain/row.ts'
import { formatCount } from '../../util/format.ts'
import type { RowState } from '../../domain/row.ts'
import { html, type Html } from './html.ts'
import { shareBar, percentOfTotal, ratio, stateTone } from './components.ts'

/** Rows in these states together; by default, in all. */
export const countRows = (
  counts: Readonly<Record<RowState, number>>,
  states: readonly RowState[] = ROW_STATES,
): number => states.reduce((sum, state) => sum + counts[state], 0)

export interface FunnelStep {
  readonly name: string
  readonly rows: number
  /** Rows lost before this step. */
  readonly lost: ReadonlyArray<{ readonly state: RowState; readonly rows: number }>
}

/**
 * From picked to enriched rows: each step is the remainder of the one before. Steps without a loss are omitted. Pure.
 */
export function funnelSteps(states: Readonly<Record<RowState, number>>): FunnelStep[] {
  const picked = countRows(states)
  const steps: FunnelStep[] = [{ name: 'picked', rows: picked, lost: [] }]
  let left = picked
  for (const name of ROW_STEPS) {
    const lost = ROW_STATES.filter((state) => ROW_STATE_FACTS[state].missedStep === name)
      .map((state) => ({ state, rows: states[state] }))
      .filter(({ rows }) => rows > 0)
    left -= lost.reduce((sum, { rows }) => sum + rows, 0)
    if (lost.length > 0 || name === 'enriched') steps.push({ name, rows: left, lost })
  }
  return steps
}

/** The funnel as a table whose lines add up. */
export function funnelTable(
  caption: string,
  states: Readonly<Record<RowState, number>>,
  linkOf: (state: RowState) => string | null = () => null,
): Html {
  const steps = funnelSteps(states)
  const picked = steps[0]?.rows ?? 0
  return html`<table class="funnel">
    <caption>
      ${caption}
    </caption>
    <thead class="sr">
      <tr>
        <th scope="col">step</th>
        <th scope="col">rows</th>
        <th scope="col">share</th>
      </tr>
    </thead>
    <tbody>
      ${steps.map((step) => [
        step.lost.map(({ state, rows }) => lossRow(state, rows, picked, linkOf(state))),
        html`<tr class="step">
          <th scope="row">${step.name}</th>
          <td class="n">${formatCount(step.rows)}</td>
          <td class="wide">
            <div>
              ${shareBar([{ share: ratio(step.rows, picked), look: step.name === 'enriched' ? 'good' : 'flow' }])}
              <span class="n">${percentOfTotal(step.rows, picked)}</span>
            </div>
          </td>
        </tr>`,
      ])}
    </tbody>
  </table>`
}

function lossRow(state: RowState, rows: number, picked: number, link: string | null): Html {
  const name = link === null ? formatState(state) : html`<a href="${link}">${formatState(state)}</a>`
  return html`<tr class="loss ${stateTone(state)}">
    <th scope="row"><span aria-hidden="true">−</span><span class="sr">less</span> ${name}</th>
    <td class="n">${formatCount(rows)}</td>
    <td class="wide">
      <div><span class="n">${percentOfTotal(rows, picked)}</span></div>
    </td>
  </tr>`
}
