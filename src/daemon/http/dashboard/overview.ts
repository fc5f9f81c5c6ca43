import type { Board } from '../../../pipeline/board.ts'
import { failures } from './failures.ts'
import { html, type Html } from './html.ts'
import { jobs } from './jobs.ts'
import { callsTable, quota, rate } from './rate.ts'
import { runs } from './runs.ts'
import { sourceCard } from './sources.ts'
import { tiles } from './tiles.ts'
import { verdict } from './verdict.ts'

/** The first page. */
export const overview = (board: Board): Html =>
  html`<h1 class="sr">How Fillrate goes</h1>
    ${verdict(board)} ${tiles(board)}
    <div class="grid">${board.sources.map((source) => sourceCard(source, board.at))}</div>
    ${rate(board)} ${runs(board)}
    <div class="grid">${jobs(board)}${failures(board)}</div>`

/** The parts of it that go on, by the id of the element that each takes the place of. */
export function liveParts(board: Board): ReadonlyMap<string, Html> {
  return new Map([
    ['verdict', verdict(board)],
    ['tiles', tiles(board)],
    ...board.sources.map((source) => [`source-${source.name}`, sourceCard(source, board.at)] as const),
    ['quota', quota(board)],
    ['calls-details', callsTable(board)],
    ['runs', runs(board)],
    ['jobs', jobs(board)],
    ['failures', failures(board)],
  ])
}
