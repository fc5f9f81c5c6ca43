import { expect, test } from 'vitest'
import { isAfterItself, partsBefore } from '../../../src/runs/run-part.ts'
import type { Source } from '../../../src/sources/source-model.ts'

/** The services of a run. @param orders of each source, as `a b c` */
function partsOf(...orders: readonly string[]) {
  const toSource = (order: string): unknown => ({ mapping: { step: { services: order.split(' ') } } })
  const sources = orders.map((order) => toSource(order) as Source)
  const names = [...new Set(orders.join(' ').split(' '))].sort()
  const isOf = (name: string, { mapping }: Source) => mapping.step.services.includes(name)
  return names.map((name) => ({ name, sources: sources.filter((source) => isOf(name, source)) }))
}

test.each([
  { orders: ['a b c'], before: { a: '', b: 'a', c: 'ab' }, afterThemselves: '' },
  // A row of the first source never comes to `c`.
  { orders: ['a b', 'b c'], before: { a: '', b: 'a', c: 'b' }, afterThemselves: '' },
  { orders: ['a b', 'b a'], before: { a: 'b', b: 'a' }, afterThemselves: 'ab' },
  { orders: ['a b', 'b c', 'c a'], before: { a: 'c', b: 'a', c: 'b' }, afterThemselves: 'abc' },
  // Those two end their jobs unfilled, so that `c` need not.
  { orders: ['a b', 'b a c'], before: { a: 'b', b: 'a', c: 'ab' }, afterThemselves: 'ab' },
])('of sources with the orders $orders', ({ orders, before, afterThemselves }) => {
  const parts = partsOf(...orders)
  const found = parts.map((part) => [
    part.name,
    partsBefore(part, parts)
      .map(({ name }) => name)
      .join(''),
  ])
  expect(Object.fromEntries(found)).toEqual(before)
  const own = parts.filter((part) => isAfterItself(part, parts)).map(({ name }) => name)
  expect(own.join('')).toBe(afterThemselves)
})
