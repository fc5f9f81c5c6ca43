import fc from 'fast-check'
import { expect, test } from 'vitest'
import { limitChains, type StepEstimate } from '../../../src/actions/plan/budgets.ts'

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

const THREE = [
  { certain: 1_000, max: 1_000 },
  { certain: 0, max: 1_000 },
  { certain: 0, max: 1_000 },
]

test('a budget of one service leaves fewer rows for the next', () => {
  expect(limitOne(THREE, [500, Infinity, 50])).toEqual([
    { certain: 500, max: 500 },
    { certain: 0, max: 500 },
    { certain: 0, max: 50 },
  ])
})

test('a budget that services share is used by those that come first', () => {
  const most = (one: StepEstimate): number => one.max
  expect(limitOne(THREE, [], 1_300).map(most)).toEqual([1_000, 300, 300])
  expect(limitOne(THREE, [], 600).map(most)).toEqual([600, 0, 0])
  expect(limitOne(THREE, [], Infinity, 1_500).map(most)).toEqual([1_000, 500, 500])
  // What is certain for a later service is paid only where the earlier ones need the most.
  const stored = [
    { certain: 100, max: 100 },
    { certain: 60, max: 160 },
  ]
  expect(limitOne(stored, [], 130)).toEqual([
    { certain: 100, max: 100 },
    { certain: 30, max: 30 },
  ])
})

test('of a budget in money each lookup takes its own price', () => {
  const steps = THREE.slice(0, 2)
  const [limited = []] = limitChains([{ parties: [0, 1], steps, budget: Infinity, charges: [0.02, 1] }], {
    parties: [Infinity, Infinity],
    total: 120,
  })
  expect(limited.map(({ max }) => max)).toEqual([1_000, 100])
})

test('sources with opposite orders share what their first services leave', () => {
  const steps = [
    { certain: 100, max: 100 },
    { certain: 0, max: 100 },
  ]
  const limited = (parties: readonly number[], total: number, budget = Infinity) =>
    limitChains(
      [
        { parties: [0, 1], steps, budget },
        { parties: [1, 0], steps, budget: Infinity },
      ],
      { parties, total },
    ).map((source) => source.map((one) => one.max))
  expect(limited([Infinity, Infinity], 200)).toEqual([
    [100, 0],
    [100, 0],
  ])
  expect(limited([120, Infinity], Infinity)).toEqual([
    [100, 100],
    [100, 20],
  ])
  expect(limited([Infinity, Infinity], Infinity, 60)).toEqual([
    [60, 0],
    [100, 100],
  ])
})

test('certain ≤ max, whatever the counts and budgets', () => {
  const step = fc
    .tuple(fc.nat(1_000), fc.nat(1_000))
    .map(([certain, more]): StepEstimate => ({ certain, max: certain + more }))
  fc.assert(
    fc.property(
      fc.array(step, { minLength: 1, maxLength: 3 }),
      fc.array(fc.nat(2_000), { maxLength: 3 }),
      fc.nat(5_000),
      fc.nat(3_000),
      (steps, budgets, total, source) => {
        const limited = limitOne(steps, budgets, total, source)
        for (const { certain, max } of limited) expect(certain).toBeLessThanOrEqual(max)
        expect(limited.length).toBe(steps.length)
        expect(limited[0]?.max).toBeLessThanOrEqual(Math.min(budgets[0] ?? Infinity, total, source))
      },
    ),
  )
})
