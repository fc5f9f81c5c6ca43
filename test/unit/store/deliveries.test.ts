import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely'
import { expect, test } from 'vitest'
import { closeDeliveriesSql } from '../../../src/store/deliveries.ts'

const db = new Kysely({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (of) => new PostgresIntrospector(of),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
})

test('closing a delivery does not send its answers again', () => {
  const closed = {
    id: '0197d7c4-0000-7000-8000-000000000000',
    state: 'settled',
    reason: null,
    quarantinedResults: 2,
  } as const
  const settled = { ...closed, matched: { answers: [{ record: { title: 'CEO' } }] } }
  const { parameters } = closeDeliveriesSql([settled]).compile(db)
  expect(JSON.parse(String(parameters[0]))).toEqual([closed])
})
