import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  type AnswersSoFar,
  estimateSteps,
  type StepCounts,
  type StepEstimate,
  toAnswerShares,
} from '../../../src/actions/plan/chain.ts'
import { limitChains } from '../../../src/actions/plan/budgets.ts'

const answers = (
  found: AnswersSoFar['found'],
  rows: number,
  lookups: readonly number[] = found.map((one) => (one === null ? 0 : rows)),
): AnswersSoFar => ({ found, rows, lookups })

// Of 1,000 people the first knows 600; the second 200 of the 400 others, and the third 50 of the last 200.
const HISTORY = [
  answers([true, null, null], 600),
  answers([false, true, null], 200),
  answers([false, false, true], 50),
  answers([false, false, false], 150),
]

const step = (ways: Record<string, number>, further = 0): StepCounts => ({
  byWay: new Map(Object.entries(ways)),
  further,
})

const MISS = ['miss', 'miss', null] as const
const BLANK = ['blank', null] as const

const sharesOf = (history: readonly AnswersSoFar[], when: readonly ('miss' | 'blank' | null)[]) =>
  when.map((one, place) => toAnswerShares(history, place, one))

test('a service is judged by the rows that those before it missed', () => {
  const shares = sharesOf(HISTORY, ['miss', 'miss', null])
  expect(shares.map((one) => [one?.found, one?.observations])).toEqual([
    [0.6, 1_000],
    [0.5, 400],
    [0.25, 200],
  ])
  // Asked first, before the order was changed: it knew more of the rows that nobody had missed.
  const asFirst = answers([null, true, null], 5_000)
  expect(toAnswerShares([...HISTORY, asFirst], 1, 'miss')).toMatchObject({ found: 0.5, observations: 400 })
  // Too few have come the same way to go by.
  const few = [answers([false, false, null], 10), asFirst]
  expect(toAnswerShares(few, 1, 'miss')).toMatchObject({ observations: 5_010 })
})

test('without an answer nothing is likely, and the bound stands alone', () => {
  const shares = sharesOf([answers([true, null], 10), answers([false, null], 10)], ['miss', null])
  expect(shares[1]).toBeNull()
  const steps = [step({ '': 100 }), step({ c: 100 }), step({ cc: 100 })]
  expect(estimateSteps(steps, shares, MISS)).toEqual([
    { certain: 100, likely: 100, max: 100 },
    { certain: 0, likely: 50, max: 100 },
    { certain: 0, likely: null, max: 100 },
  ])
})

test('likely calls follow the shares; a stored miss goes on for certain, a stored record ends the row', () => {
  const shares = sharesOf(HISTORY, ['miss', 'miss', null])
  const steps = [step({ '': 1_000 }), step({ c: 1_000, m: 100 }), step({ cc: 1_000, mc: 100, mm: 7, fm: 50 })]
  expect(estimateSteps(steps, shares, MISS)).toEqual([
    { certain: 1_000, likely: 1_000, max: 1_000 },
    { certain: 100, likely: 500, max: 1_100 },
    { certain: 7, likely: 257, max: 1_157 },
  ])
})

test('with `blank` rows that were found go on as often as they did before', () => {
  const history = [answers([true, null], 300), answers([true, true], 300), answers([false, true], 400)]
  const shares = sharesOf(history, ['blank', null])
  expect(shares[0]).toMatchObject({ found: 0.6, foundOnward: 0.5 })
  const steps = [step({ '': 1_000 }), step({ c: 1_000, f: 80 })]
  expect(estimateSteps(steps, shares, BLANK)[1]).toEqual({ certain: 0, likely: 740, max: 1_080 })
  expect(toAnswerShares(history, 0, 'miss')).toMatchObject({ found: 0.6, foundOnward: 0 })
  // Until now the source had no service for blank cells: how many rows have one is not known.
  const [ended] = sharesOf([answers([true, null], 300)], ['blank', null])
  expect(ended).toMatchObject({ foundOnward: null })
  expect(estimateSteps(steps, [ended ?? null, null], BLANK)[1]).toMatchObject({ likely: null, max: 1_080 })
})

test('a cascade takes as many lookups a row as it did, and no more than there are', () => {
  const history = [answers([true], 50, [50]), answers([false], 50, [100])]
  const shares = sharesOf(history, [null])
  expect(shares[0]?.lookupsPerRow).toBe(1.5)
  expect(estimateSteps([step({ '': 100 }, 80)], shares, [null])).toEqual([
    { certain: 100, likely: 150, max: 180 },
  ])
  expect(estimateSteps([step({ '': 100 }, 20)], shares, [null])).toEqual([
    { certain: 100, likely: 120, max: 120 },
  ])
})

const limitOne = (
  steps: readonly StepEstimate[],
  budgets: readonly number[],
  total = Infinity,
  budget = Infinity,
): StepEstimate[] =>
  limitChains([{ parties: steps.map((_, n) => n), steps, budget }], {
    parties: steps.map((_, n) => budgets[n] ?? Infinity),
    total,
  })[0] ?? []

test('a budget of one service leaves fewer rows for the next', () => {
  const steps = [
    { certain: 1_000, likely: 1_000, max: 1_000 },
    { certain: 0, likely: 400, max: 1_000 },
    { certain: 0, likely: 200, max: 1_000 },
  ]
  expect(limitOne(steps, [500, Infinity, 50])).toEqual([
    { certain: 500, likely: 500, max: 500 },
    { certain: 0, likely: 200, max: 500 },
    { certain: 0, likely: 50, max: 50 },
  ])
})

test('a budget that services share is used by those that come first', () => {
  const steps = [
    { certain: 1_000, likely: 1_000, max: 1_000 },
    { certain: 0, likely: 400, max: 1_000 },
    { certain: 0, likely: 200, max: 1_000 },
  ]
  const [likely, most] = [(one: StepEstimate) => one.likely, (one: StepEstimate) => one.max]
  expect(limitOne(steps, [], 1_300).map(likely)).toEqual([1_000, 300, 0])
  expect(limitOne(steps, [], Infinity, 1_500).map(likely)).toEqual([1_000, 400, 100])
  expect(limitOne(steps, [], 600).map(most)).toEqual([600, 0, 0])
  // Of rows that are not paid at the second, none comes to the third.
  expect(limitOne(steps, [Infinity, 200], Infinity, 1_250).map(likely)).toEqual([1_000, 200, 50])
})

test('of a budget in money each lookup takes its own price', () => {
  const steps = [
    { certain: 1_000, likely: 1_000, max: 1_000 },
    { certain: 0, likely: 400, max: 1_000 },
  ]
  const [limited = []] = limitChains([{ parties: [0, 1], steps, budget: Infinity, charges: [0.02, 1] }], {
    parties: [Infinity, Infinity],
    total: 120,
  })
  expect(limited.map(({ likely }) => likely)).toEqual([1_000, 100])
})

test('sources with opposite orders share what their first services leave', () => {
  const steps = [
    { certain: 100, likely: 100, max: 100 },
    { certain: 0, likely: 50, max: 100 },
  ]
  const limited = (parties: readonly number[], total: number, budget = Infinity) =>
    limitChains(
      [
        { parties: [0, 1], steps, budget },
        { parties: [1, 0], steps, budget: Infinity },
      ],
      { parties, total },
    ).map((source) => source.map((one) => one.likely))
  expect(limited([Infinity, Infinity], 200)).toEqual([
    [100, 0],
    [100, 0],
  ])
  expect(limited([120, Infinity], Infinity)).toEqual([
    [100, 50],
    [100, 20],
  ])
  expect(limited([Infinity, Infinity], Infinity, 60)).toEqual([
    [60, 0],
    [100, 50],
  ])
})

test('certain ≤ likely ≤ max, whatever the counts, shares and budgets', () => {
  const found = fc.array(fc.option(fc.boolean()), { minLength: 3, maxLength: 3 })
  const history = fc.array(
    fc.tuple(found, fc.integer({ min: 1, max: 500 })).map(([one, rows]) => answers(one, rows)),
    { maxLength: 8 },
  )
  const ways = (length: number) =>
    fc.dictionary(fc.stringMatching(new RegExp(`^[mcf]{${length}}$`, 'u')), fc.nat(1_000), { maxKeys: 5 })
  const chain = fc
    .tuple(fc.nat(1_000), ways(1), ways(2), fc.nat(100))
    .map(([first, second, third, further]) => [step({ '': first }, further), step(second), step(third)])
  const when = fc.constantFrom('miss' as const, 'blank' as const)
  fc.assert(
    fc.property(
      history,
      chain,
      when,
      fc.array(fc.nat(2_000), { maxLength: 3 }),
      fc.nat(5_000),
      fc.nat(3_000),
      (rows, steps, one, budgets, total, source) => {
        const estimates = estimateSteps(steps, sharesOf(rows, [one, one, null]), [one, one, null])
        for (const { certain, likely, max } of [
          ...estimates,
          ...limitOne(estimates, budgets, total, source),
        ]) {
          expect(certain).toBeLessThanOrEqual(max)
          if (likely === null) continue
          expect(likely).toBeLessThanOrEqual(max + 1)
          expect(likely).toBeGreaterThanOrEqual(certain - 1)
        }
      },
    ),
  )
})

test('a row that one service has found ends where the next goes on with misses alone', () => {
  // Of 1,000 people the first finds 600, of which 300 go on for a blank cell; the second finds half of all that come.
  const history = [
    answers([true, null, null], 300),
    answers([true, true, null], 150),
    answers([true, false, null], 150),
    answers([false, true, null], 200),
    answers([false, false, true], 200),
  ]
  const when = ['blank', 'miss', null] as const
  const steps = [step({ '': 1_000 }), step({ c: 1_000 }), step({ cc: 1_000 })]
  expect(estimateSteps(steps, sharesOf(history, when), when).map(({ likely }) => likely)).toEqual([
    1_000, 700, 200,
  ])
})
