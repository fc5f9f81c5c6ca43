import { expect, test } from 'vitest'
import { describeOrders, type PlayedOrders } from '../../../src/domain/order-answer.ts'
import { type AnsweredRows, listOrders, playOrder } from '../../../src/domain/service-order.ts'

const NAMES = ['acme', 'pdl', 'other']

/** All orders of two services, the first of which is configured. */
function play(
  groups: readonly AnsweredRows[],
  prices: readonly number[],
  currency: string | null = 'EUR',
): PlayedOrders {
  const costs = prices.map((price) => ({ found: price, missed: price }))
  const orders = listOrders(prices.map((_, index) => ({ index, when: 'miss' as const })))
  return {
    rows: groups.reduce((sum, { rows }) => sum + rows, 0),
    rowsAllAnswered: groups.reduce(
      (sum, { rows, answers }) => (answers.includes(null) ? sum : sum + rows),
      0,
    ),
    currency,
    orders: orders.map((order, n) => ({
      services: order.map(({ index }) => NAMES[index] ?? ''),
      isConfigured: n === 0,
      forecast: playOrder(groups, order, costs, 3),
    })),
  }
}

const both: AnsweredRows[] = [
  { rows: 500, answers: [true, true], cells: new Map([[3, 1_500]]) },
  { rows: 100, answers: [true, false], cells: new Map([[1, 300]]) },
  { rows: 300, answers: [false, true], cells: new Map([[2, 900]]) },
  { rows: 100, answers: [false, false], cells: new Map() },
]

/** In order: of pdl, what acme does not know. */
const inOrder: AnsweredRows[] = [
  { rows: 600, answers: [true, null], cells: new Map([[1, 1_800]]) },
  { rows: 300, answers: [false, true], cells: new Map([[2, 900]]) },
  { rows: 100, answers: [false, false], cells: new Map() },
]

test('where all have answered, it says which order costs less for as many cells', () => {
  expect(describeOrders(play(both, [0.1, 0.2]))).toEqual([
    'All of acme and pdl have answered about each of 1,000 rows.',
    'No other order fills as many cells for less: as it is, it comes to 180.00 EUR for 2,700 cells.',
    'pdl, the last, fills 900 cells that the others leave (33.3% of all), from 400 rows, for 80.00 EUR: 0.09 EUR a cell, where one of acme costs 0.06 EUR. It is worth it if a cell is worth more than that.',
  ])
  expect(describeOrders(play(both, [0.2, 0.1]))[1]).toBe(
    'As many cells cost less in another order: pdl, then acme comes to 140.00 EUR for 2,700 cells, the order as it is to 240.00 EUR for 2,700 cells.',
  )
})

test('where the second has not answered about what the first knows, it says so, unless the bounds decide', () => {
  expect(describeOrders(play(inOrder, [0.2, 0.1])).slice(0, 2)).toEqual([
    'All of acme and pdl have answered about 400 of 1,000 rows; of the others, only some answers are stored.',
    'Whether another order fills as many cells for less is not known: as it is, it comes to 240.00 EUR for 2,700 cells, and pdl, then acme to 120.00 EUR to 240.00 EUR for 900 to 2,700 cells. That needs answers about 600 rows that no comparable row has: only requests would show it.',
  ])
  // pdl alone, for all of them, costs more than both do now.
  expect(describeOrders(play(inOrder, [0.1, 0.5]))[1]).toBe(
    'No other order fills as many cells for less: as it is, it comes to 300.00 EUR for 2,700 cells.',
  )
})

test('a sample makes an estimate, with its bounds', () => {
  const sampled: AnsweredRows[] = [
    { rows: 500, answers: [true, null], cells: new Map([[1, 1_500]]) },
    { rows: 80, answers: [true, true], cells: new Map([[3, 240]]) },
    { rows: 20, answers: [true, false], cells: new Map([[1, 60]]) },
    ...inOrder.slice(1),
  ]
  const [basis, verdict] = describeOrders(play(sampled, [0.2, 0.1]))
  expect(basis).toContain('about 500 of 1,000 rows')
  expect(verdict).toMatch(
    /^As many cells (probably )?cost less in another order: pdl, then acme comes to about 144\.00 EUR \(/,
  )
})

test('a service that fills nothing can go, and without prices no costs are compared', () => {
  const useless: AnsweredRows[] = [
    { rows: 50, answers: [true, null], cells: new Map([[1, 50]]) },
    { rows: 50, answers: [false, false], cells: new Map() },
  ]
  expect(describeOrders(play(useless, [0.1, 0.1])).at(-1)).toBe(
    'pdl, the last, fills nothing that the others leave: it can go.',
  )
  expect(describeOrders(play(both, [0, 0], null)).slice(1)).toEqual([
    'Costs are not compared: not each of the services has a price in the same currency.',
    'pdl, the last, fills 900 cells that the others leave (33.3% of all), from 400 rows.',
  ])
  expect(describeOrders(play([], [0.1, 0.1]))).toEqual([])
})
