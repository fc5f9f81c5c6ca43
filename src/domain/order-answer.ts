import { formatCount, formatMoney, formatPercent, listInWords, pluralize } from '../util/format.ts'
import type { OrderForecast, Range } from './service-order.ts'

/** An order of the services of a source, and what it comes to. */
export interface PlayedOrder {
  /** The names of its services. */
  readonly services: readonly string[]
  /** It is the one that is configured. */
  readonly isConfigured: boolean
  readonly forecast: OrderForecast
}

/** What is known of the rows of a source, and what each order of its services comes to. */
export interface PlayedOrders {
  /** Rows of which at least one service has answered. */
  readonly rows: number
  /** Of these, rows of which all have. */
  readonly rowsAllAnswered: number
  /** Null: not every service has a price, all in one currency. */
  readonly currency: string | null
  readonly orders: readonly PlayedOrder[]
}

/** A number, or between what it lies: `1,200`, `about 1,250 (1,200 to 1,300)`, `1,200 to 1,300`. */
function formatRange({ low, high, likely }: Range, format = formatCount): string {
  if (format(low) === format(high)) return format(low)
  const bounds = `${format(low)} to ${format(high)}`
  return likely === null ? bounds : `about ${format(likely)} (${bounds})`
}

/** The same of rows or cells, which are whole. */
const formatWholes = (range: Range): string => formatRange(toWholes(range))

export const toWholes = ({ low, high, likely }: Range): Range => ({
  low: Math.floor(low),
  high: Math.ceil(high),
  likely: likely === null ? null : Math.round(likely),
})

const formatMoneyRange = (range: Range, currency: string): string =>
  formatRange(range, (amount) => formatMoney({ amount, currency }))

/** Which order is the cheapest for the same cells, and whether the last service is worth it: as sentences. */
export function describeOrders(played: PlayedOrders): string[] {
  const { rows, orders } = played
  const configured = orders.find(({ isConfigured }) => isConfigured)
  if (rows === 0 || configured === undefined) return []
  if (configured.services.length === 1)
    return [`Only ${configured.services.join()} has answered: there is no other order to compare.`]
  return [
    describeBasis(played, configured),
    ...describeOthers(played, configured),
    ...describeLast(played, configured),
  ]
}

const describeBasis = ({ rows, rowsAllAnswered }: PlayedOrders, { services }: PlayedOrder): string => {
  const names = listInWords(services, 'services')
  return rowsAllAnswered === rows
    ? `All of ${names} have answered about each of ${pluralize(rows, 'row')}.`
    : `All of ${names} have answered about ${formatCount(rowsAllAnswered)} of ${pluralize(rows, 'row')}; of the others, only some answers are stored.`
}

/** Services have different values for a few cells of the rows that several of them know: an order that fills nearly as many fills as many. */
const AS_MANY = 0.99

const middleOf = ({ low, high, likely }: Range): number => likely ?? (low + high) / 2

/** How two numbers compare: for sure, by the estimates, or, where there is none and the bounds overlap, not at all. */
function isBelow(a: Range, b: Range): 'surely' | 'probably' | 'perhaps' | 'no' {
  if (a.high < b.low) return 'surely'
  if (a.low >= b.high) return 'no'
  if (a.likely === null || b.likely === null) return 'perhaps'
  return a.likely < b.likely ? 'probably' : 'no'
}

const scale = ({ low, high, likely }: Range, factor: number): Range => ({
  low: low * factor,
  high: high * factor,
  likely: likely === null ? null : likely * factor,
})

function describeOthers({ currency, orders }: PlayedOrders, configured: PlayedOrder): string[] {
  const others = orders.filter((one) => one !== configured)
  if (others.length === 0) return []
  if (currency === null)
    return ['Costs are not compared: not each of the services has a price in the same currency.']
  const text = ({ forecast: { total } }: PlayedOrder): string =>
    `${formatMoneyRange(total.cost, currency)} for ${formatWholes(total.cells)} cells`
  const now = configured.forecast.total
  const compared = others.map((order) => {
    const { cost, cells } = order.forecast.total
    const [cheaper, lessCells] = [isBelow(cost, now.cost), isBelow(cells, scale(now.cells, AS_MANY))]
    const isNo = cheaper === 'no' || lessCells === 'surely' || lessCells === 'probably'
    const isOpen = cheaper === 'perhaps' || lessCells === 'perhaps'
    const verdict = isNo ? 'no' : isOpen ? 'perhaps' : cheaper === 'surely' ? 'surely' : 'probably'
    return { order, verdict, more: isBelow(scale(now.cells, 1 / AS_MANY), cells) }
  })
  const cheapest = (verdict: string): PlayedOrder | undefined =>
    compared
      .filter((one) => one.verdict === verdict)
      .map(({ order }) => order)
      .toSorted((a, b) => middleOf(a.forecast.total.cost) - middleOf(b.forecast.total.cost))[0]
  const [sure, probable, open] = ['surely', 'probably', 'perhaps'].map(cheapest)
  const better = sure ?? probable
  const verdict =
    better !== undefined
      ? `As many cells ${sure === undefined ? 'probably cost' : 'cost'} less in another order: ${nameOrder(better)} comes to ${text(better)}, the order as it is to ${text(configured)}.`
      : open === undefined
        ? `No other order fills as many cells for less: as it is, it comes to ${text(configured)}.`
        : `Whether another order fills as many cells for less is not known: as it is, it comes to ${text(configured)}, and ${nameOrder(open)} to ${text(open)}. ` +
          `That needs answers about ${pluralize(open.forecast.blindRows, 'row')} that no comparable row has: only requests would show it.`
  const [fuller] = compared
    .filter(({ more }) => more === 'surely' || more === 'probably')
    .map(({ order }) => order)
    .toSorted((a, b) => middleOf(a.forecast.total.cost) - middleOf(b.forecast.total.cost))
  return fuller === undefined || fuller === better
    ? [verdict]
    : [verdict, `More cells would come of ${nameOrder(fuller)}: ${text(fuller)}.`]
}

const nameOrder = (order: Pick<PlayedOrder, 'services'>): string => order.services.join(', then ')

function describeLast({ currency }: PlayedOrders, { services, forecast }: PlayedOrder): string[] {
  const [first, last] = [forecast.steps[0], forecast.steps.at(-1)]
  const name = services.at(-1)
  if (first === undefined || last === undefined || name === undefined) return []
  if (last.cells.high === 0) return [`${name}, the last, fills nothing that the others leave: it can go.`]
  const share =
    last.cells.likely === null
      ? ''
      : ` (${formatPercent(last.cells.likely / middleOf(forecast.total.cells))} of all)`
  const head = `${name}, the last, fills ${formatWholes(last.cells)} cells that the others leave${share}, from ${formatWholes(last.requested)} rows`
  if (currency === null) return [`${head}.`]
  const [each, firstEach] = [last, first].map(({ cost, cells }) =>
    cost.likely === null || cells.likely === null || cells.likely === 0
      ? null
      : formatMoney({ amount: cost.likely / cells.likely, currency }),
  )
  const paid = `${head}, for ${formatMoneyRange(last.cost, currency)}`
  if (each == null) return [`${paid}.`]
  const compared = firstEach == null ? '' : `, where one of ${services[0]} costs ${firstEach}`
  return [`${paid}: ${each} a cell${compared}. It is worth it if a cell is worth more than that.`]
}
