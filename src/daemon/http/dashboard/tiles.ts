import { count, percent } from '../../../domain/numbers.ts'
import { FAILURE_STATES } from '../../../domain/row.ts'
import type { Board } from '../../../pipeline/board.ts'
import { html, type Html } from './html.ts'
import { share } from './parts.ts'

/** The numbers that answer: what did it fill, what does it cost, what is stuck. */
export function tiles(board: Board): Html {
  const states = board.sources.map((source) => source.states)
  const all = states.reduce((sum, one) => sum + Object.values(one).reduce((a, b) => a + b, 0), 0)
  const sumOf = (names: readonly string[]): number =>
    states.reduce(
      (sum, one) => sum + names.reduce((a, name) => a + (one[name as keyof typeof one] ?? 0), 0),
      0,
    )
  const enriched = sumOf(['enriched'])
  const calls = board.calls.reduce((sum, one) => sum + one.calls, 0)
  const throttled = board.calls.filter((one) => one.status === '429').reduce((sum, one) => sum + one.calls, 0)
  return html`<section id="tiles" class="tiles" aria-label="In numbers">
    <dl>
      ${tile('Cells filled', count(board.spent.written), 'in 30 days')}
      ${tile('Rows enriched', count(enriched), all === 0 ? 'no row picked yet' : `${percent(share(enriched, all))} of ${count(all)} picked`)}
      ${tile('Lookups asked', count(board.spent.asked), 'in 30 days: what it costs')}
      ${tile('Calls', count(calls), throttled === 0 ? 'in the last hour, none throttled' : `in the last hour, ${count(throttled)} throttled`)}
      ${tile('Waiting', count(sumOf(['waiting'])), 'rows')}
      ${tile('Could not be enriched', count(sumOf(FAILURE_STATES)), 'rows, by reason below')}
    </dl>
  </section>`
}

const tile = (name: string, value: string, more: string): Html =>
  html`<div class="tile">
    <dt>${name}</dt>
    <dd><b>${value}</b> <span>${more}</span></dd>
  </div>`
