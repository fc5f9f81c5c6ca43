import { count } from '../../../domain/numbers.ts'
import type { RowState } from '../../../domain/row.ts'
import { html, type Html } from './html.ts'
import { bar, percentOf, share, toneOf, words } from './parts.ts'

/** What is lost on the way from one step to the next; the last step is what is left. */
const STEPS: ReadonlyArray<{ readonly after: string; readonly lost: readonly RowState[] }> = [
  { after: 'can be asked', lost: ['invalid_input', 'suppressed'] },
  { after: 'answered', lost: ['waiting', 'rejected', 'failed'] },
  { after: 'found', lost: ['not_found'] },
  { after: 'sure enough', lost: ['below_confidence'] },
  { after: 'enriched', lost: ['unchanged', 'write_rejected'] },
]

export interface Step {
  readonly name: string
  readonly rows: number
  /** What was lost before it. */
  readonly lost: ReadonlyArray<{ readonly state: RowState; readonly rows: number }>
}

/** From the rows picked to those enriched, each step what is left of the one before. Steps without a loss are left out. Pure. */
export function funnel(states: Readonly<Record<RowState, number>>): Step[] {
  const picked = Object.values(states).reduce((sum, rows) => sum + rows, 0)
  const steps: Step[] = [{ name: 'picked', rows: picked, lost: [] }]
  let left = picked
  for (const { after, lost } of STEPS) {
    const losses = lost.map((state) => ({ state, rows: states[state] })).filter(({ rows }) => rows > 0)
    left -= losses.reduce((sum, { rows }) => sum + rows, 0)
    if (losses.length > 0 || after === 'enriched') steps.push({ name: after, rows: left, lost: losses })
  }
  return steps
}

/** The funnel as a table, whose lines add up from the top to the bottom. */
export function funnelTable(
  caption: string,
  states: Readonly<Record<RowState, number>>,
  linkOf: (state: RowState) => string | null = () => null,
): Html {
  const steps = funnel(states)
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
        step.lost.map(({ state, rows }) => lossLine(state, rows, picked, linkOf(state))),
        html`<tr class="step">
          <th scope="row">${step.name}</th>
          <td class="n">${count(step.rows)}</td>
          <td class="wide">
            <div>
              ${bar([{ share: share(step.rows, picked), look: step.name === 'enriched' ? 'good' : 'flow' }])}
              <span class="n">${percentOf(step.rows, picked)}</span>
            </div>
          </td>
        </tr>`,
      ])}
    </tbody>
  </table>`
}

function lossLine(state: RowState, rows: number, picked: number, link: string | null): Html {
  const name = link === null ? words(state) : html`<a href="${link}">${words(state)}</a>`
  return html`<tr class="loss ${toneOf(state)}">
    <th scope="row"><span aria-hidden="true">−</span><span class="sr">less</span> ${name}</th>
    <td class="n">${count(rows)}</td>
    <td class="wide">
      <div><span class="n">${percentOf(rows, picked)}</span></div>
    </td>
  </tr>`
}
