import { expect, test } from 'vitest'
import { findMismatches } from '../../support/result-types.ts'
import { readCachedTypes } from '../../support/result-types-setup.ts'

// Every test on Postgres holds the rows of a statement against `sql<Row>` (`checked-kysely.ts`); these show that this can fail.

// A run of single files after a change of `src` has none.
const types = readCachedTypes()?.types
const [place = '', processes] =
  Object.entries(types ?? {}).find(([one]) => one.startsWith('src/store/processes.ts')) ?? []

test.runIf(types)('each result has a type whose columns the compiler can list', () => {
  expect(Object.keys(types ?? {}).length).toBeGreaterThan(150)
  expect(Object.entries(types ?? {}).filter(([, shape]) => shape === null)).toEqual([])
})

test.runIf(types)('a missing column, another type, an unlisted text and a null are found', () => {
  expect(place).not.toBe('')
  expect(findMismatches(processes ?? null, {})).not.toEqual([])
  const shape = {
    kinds: ['object'],
    properties: {
      id: { kinds: ['number'] },
      state: { kinds: ['string'], texts: ['open', 'done'] },
      tags: { kinds: ['array'], elements: { kinds: ['string'] } },
    },
  }
  expect(findMismatches(shape, { id: 1, state: 'open', tags: ['a'], more: true })).toEqual([])
  expect(findMismatches(shape, { id: '1', state: 'gone', tags: [null] })).toEqual([
    'row.id is string, and by its type number',
    "row.state is 'gone', and by its type open or done",
    'row.tags[0] is null, and by its type string',
  ])
  expect(findMismatches(shape, { id: 1, state: 'open' })).toEqual([
    'row.tags is undefined, and by its type array',
  ])
})
