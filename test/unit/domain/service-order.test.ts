import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  type AnsweredRows,
  listOrders,
  type OrderedService,
  playOrder,
  shareBounds,
} from '../../../src/domain/service-order.ts'

// The orders are played again row by row, on what each service would really have answered.

const COLUMNS = 4
const COSTS = [
  { found: 1, missed: 0.25 },
  { found: 3, missed: 0 },
  { found: 0.5, missed: 0.5 },
]

/** What each service has of a row: a set of columns; null: no record. */
type Row = readonly (number | null)[]
type When = OrderedService['when']

const rowsOf = (services: number): fc.Arbitrary<Row[]> =>
  fc.array(
    fc.array(fc.option(fc.nat(2 ** COLUMNS - 1), { nil: null }), {
      minLength: services,
      maxLength: services,
    }),
    { minLength: 1, maxLength: 40 },
  )

const threeServices = fc.record({
  rows: rowsOf(3),
  order: fc.constantFrom(...listOrders([0, 1, 2])),
  when: fc.array(fc.constantFrom<When>('miss', 'blank'), { minLength: 3, maxLength: 3 }),
})

const toOrder = (order: readonly number[], when: readonly When[]): OrderedService[] =>
  order.map((index) => ({ index, when: when[index] ?? 'miss' }))

const popCount = (set: number): number => [...set.toString(2)].filter((digit) => digit === '1').length

/** Requests a row of the services of an order. @param isRequestedInVain where no service has anything for what is blank */
function playRow(row: Row, order: readonly OrderedService[], isRequestedInVain: boolean) {
  const figures = { requested: [0, 0, 0], found: [0, 0, 0], cells: [0, 0, 0], cost: [0, 0, 0] }
  const all = row.reduce<number>((set, one) => set | (one ?? 0), 0)
  let filled = 0
  let isFound = false
  for (const [k, { index, when }] of order.entries()) {
    if (isFound && (when === 'miss' || ((all & ~filled) === 0 && !isRequestedInVain))) break
    const record = row[index] ?? null
    figures.requested[k] = 1
    figures.cost[k] = (record === null ? COSTS[index]?.missed : COSTS[index]?.found) ?? 0
    if (record === null) continue
    figures.found[k] = 1
    figures.cells[k] = popCount(record & ~filled)
    filled |= record
    isFound = true
  }
  return figures
}

/** The sums over all rows, and in all. */
function playRows(rows: readonly Row[], order: readonly OrderedService[], isRequestedInVain = false) {
  const played = rows.map((row) => playRow(row, order, isRequestedInVain))
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0)
  const steps = order.map((_, k) => ({
    requested: sum(played.map((one) => one.requested[k] ?? 0)),
    found: sum(played.map((one) => one.found[k] ?? 0)),
    cells: sum(played.map((one) => one.cells[k] ?? 0)),
    cost: sum(played.map((one) => one.cost[k] ?? 0)),
  }))
  return {
    steps,
    total: {
      found: sum(played.map((one) => Math.max(...one.found))),
      cells: sum(steps.map(({ cells }) => cells)),
      cost: sum(steps.map(({ cost }) => cost)),
    },
  }
}

/** The rows as they are stored where each service has answered that `isKnown` says. */
function store(rows: readonly Row[], isKnown: (row: Row, service: number) => boolean): AnsweredRows[] {
  return rows.map((row) => {
    const known = row.map((_, service) => isKnown(row, service))
    const cells = new Map<number, number>()
    for (let column = 0; column < COLUMNS; column++) {
      const set = row.reduce<number>(
        (mask, record, service) =>
          known[service] === true && ((record ?? 0) & (1 << column)) !== 0 ? mask | (1 << service) : mask,
        0,
      )
      if (set !== 0) cells.set(set, (cells.get(set) ?? 0) + 1)
    }
    return { rows: 1, answers: row.map((record, n) => (known[n] === true ? record !== null : null)), cells }
  })
}

/** Rows that are stored alike, as one group. */
function merge(groups: readonly AnsweredRows[]): AnsweredRows[] {
  const keyOf = ({ answers, cells }: AnsweredRows): string =>
    JSON.stringify([answers, [...cells.keys()].toSorted((a, b) => a - b)])
  return [...Map.groupBy(groups, keyOf).values()].map((alike) => {
    const cells = new Map<number, number>()
    for (const one of alike)
      for (const [set, count] of one.cells) cells.set(set, (cells.get(set) ?? 0) + count)
    return { rows: alike.length, answers: alike[0]?.answers ?? [], cells }
  })
}

type Forecast = ReturnType<typeof playOrder>
type Sums = ReturnType<typeof playRows>

const FIGURES = ['requested', 'found', 'cells', 'cost'] as const

/** Every figure with its name, of the forecast and of a play. */
const pairs = (forecast: Forecast, sums: Sums) => [
  ...forecast.steps.flatMap((step, k) =>
    FIGURES.map((name) => ({ name: `${k}.${name}`, range: step[name], is: sums.steps[k]?.[name] ?? 0 })),
  ),
  ...(['found', 'cells', 'cost'] as const).map((name) => ({
    name,
    range: forecast.total[name],
    is: sums.total[name],
  })),
]

const known = (): boolean => true

test('where all answers are stored, an order comes to what the requests come to, to the cell', () => {
  fc.assert(
    fc.property(threeServices, ({ rows, order, when }) => {
      const services = toOrder(order, when)
      const forecast = playOrder(merge(store(rows, known)), services, COSTS, COLUMNS)
      expect(forecast.estimatedRows).toBe(0)
      for (const { name, range, is } of pairs(forecast, playRows(rows, services, true)))
        expect([name, range.likely]).toEqual([name, expect.closeTo(is, 5)])
      for (const { name, range, is } of pairs(forecast, playRows(rows, services, false)))
        expect([name, range.low <= is + 1e-6 && is - 1e-6 <= range.high]).toEqual([name, true])
      const open = when.includes('blank') ? [] : pairs(forecast, playRows(rows, services))
      expect(open.filter(({ range }) => range.low !== range.high)).toEqual([])
    }),
  )
})

test('after runs in one order, that order is exact, and every other one is within its bounds', () => {
  fc.assert(
    fc.property(rowsOf(3), fc.constantFrom(...listOrders([0, 1, 2])), (rows, order) => {
      // Requested in the order 0, 1, 2, until one has it.
      const stored = merge(store(rows, (row, service) => row.slice(0, service).every((one) => one === null)))
      const services = toOrder(order, ['miss', 'miss', 'miss'])
      const forecast = playOrder(stored, services, COSTS, COLUMNS)
      for (const { name, range, is } of pairs(forecast, playRows(rows, services))) {
        expect([name, range.low <= is + 1e-6 && is - 1e-6 <= range.high]).toEqual([name, true])
        const isExact = range.low === range.high && range.likely === is
        expect([name, isExact || order.join() !== '0,1,2']).toEqual([name, true])
      }
      // The rows that are found are the same in any order.
      expect(forecast.total.found).toMatchObject({
        low: playRows(rows, services).total.found,
        likely: forecast.total.found.high,
      })
    }),
  )
})

test('rows that are stored alike count as one group as they do one by one', () => {
  fc.assert(
    fc.property(threeServices, fc.nat(), ({ rows, order, when }, seed) => {
      const stored = store(
        rows,
        (row, service) => ((rows.indexOf(row) * 7 + service * 3 + seed) % 5) % 2 === 0,
      )
      const services = toOrder(order, when)
      const merged = playOrder(merge(stored), services, COSTS, COLUMNS)
      const single = playOrder(stored, services, COSTS, COLUMNS)
      expect(merged.estimatedRows).toBe(single.estimatedRows)
      expect(merged.blindRows).toBe(single.blindRows)
      const [costs, others] = [merged.total.cost, single.total.cost]
      expect(costs.low).toBeCloseTo(others.low, 5)
      expect(costs.high).toBeCloseTo(others.high, 5)
      expect(costs.likely ?? 0).toBeCloseTo(others.likely ?? 0, 5)
    }),
  )
})

test('a share of a sample stands for the rows whose answer is missing', () => {
  // The first has found 1,000 rows; the second was called for 200 of them, of which it has found 50, with half of the cells.
  const groups: AnsweredRows[] = [
    { rows: 800, answers: [true, null], cells: new Map([[1, 1_600]]) },
    {
      rows: 50,
      answers: [true, true],
      cells: new Map([
        [1, 50],
        [3, 50],
      ]),
    },
    { rows: 150, answers: [true, false], cells: new Map([[1, 300]]) },
  ]
  const order = toOrder([1, 0], ['miss', 'miss'])
  const { steps, total, estimatedRows, blindRows } = playOrder(groups, order, COSTS, COLUMNS)
  expect({ estimatedRows, blindRows }).toEqual({ estimatedRows: 800, blindRows: 0 })
  expect(steps[0]?.requested).toEqual({ low: 1_000, high: 1_000, likely: 1_000 })
  expect(steps[0]?.found.likely).toBe(250)
  // Wilson's interval of 50 of 200, for the 800 rows.
  expect(steps[0]?.found.low).toBeCloseTo(50 + 800 * 0.195, 0)
  expect(steps[0]?.found.high).toBeCloseTo(50 + 800 * 0.314, 0)
  expect(steps[1]?.requested.likely).toBe(750)
  expect(total.found).toEqual({ low: 1_000, high: 1_000, likely: 1_000 })
  expect(total.cells.likely).toBe(250 + 750 * 2)
})

test('what nothing stored says has bounds, and no estimate', () => {
  const groups: AnsweredRows[] = [
    { rows: 600, answers: [true, null], cells: new Map([[1, 1_200]]) },
    { rows: 400, answers: [false, true], cells: new Map([[2, 800]]) },
  ]
  const forecast = playOrder(groups, toOrder([1, 0], ['miss', 'miss']), COSTS, COLUMNS)
  expect(forecast).toMatchObject({ estimatedRows: 600, blindRows: 600 })
  expect(forecast.steps[0]?.found).toEqual({ low: 400, high: 1_000, likely: null })
  expect(forecast.steps[1]?.requested).toEqual({ low: 0, high: 600, likely: null })
  expect(forecast.total.cost).toEqual({ low: 1_800, high: 3_000, likely: null })
})

test('a service that takes no input of a row is passed, in any order', () => {
  const groups: AnsweredRows[] = [
    { rows: 10, answers: ['passed', true], cells: new Map([[2, 20]]) },
    { rows: 5, answers: ['passed', false], cells: new Map() },
    { rows: 85, answers: [true, true], cells: new Map([[3, 85]]) },
  ]
  for (const indexes of [
    [0, 1],
    [1, 0],
  ]) {
    const { steps, total, estimatedRows } = playOrder(
      groups,
      toOrder(indexes, ['miss', 'miss']),
      COSTS,
      COLUMNS,
    )
    expect(estimatedRows).toBe(0)
    const requested = new Map(steps.map((step) => [step.index, step.requested.likely]))
    expect(requested).toEqual(
      new Map(
        indexes[0] === 0
          ? [
              [0, 85],
              [1, 15],
            ]
          : [
              [1, 100],
              [0, 0],
            ],
      ),
    )
    expect(total).toMatchObject({ found: { low: 95, high: 95 }, cells: { low: 105, high: 105 } })
  }
})

test('a share is between its bounds, which a larger sample narrows', () => {
  fc.assert(
    fc.property(fc.nat(500), fc.integer({ min: 1, max: 500 }), (count, of) => {
      const seen = Math.min(count, of)
      const [low, high] = shareBounds(seen, of)
      expect(low).toBeGreaterThanOrEqual(0)
      expect(low).toBeLessThanOrEqual(seen / of)
      expect(high).toBeGreaterThanOrEqual(seen / of)
      expect(high).toBeLessThanOrEqual(1)
      const [closerLow, closerHigh] = shareBounds(seen * 4, of * 4)
      expect(closerHigh - closerLow).toBeLessThan(high - low)
    }),
  )
  expect(shareBounds(0, 0)).toEqual([0, 1])
})
