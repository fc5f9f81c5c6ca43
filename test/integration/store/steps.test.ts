import { beforeEach, expect, test } from 'vitest'
import { moveToNextStep, beginAnew, resumeAtLaterStep } from '../../../src/store/write-back-queue.ts'
import { insertService, recordServiceName } from '../../../src/store/services.ts'
import { inTransaction } from '../../../src/store/transaction.ts'
import { useTestDatabase } from '../../support/database.ts'
import { beginRun } from '../../support/test-run.ts'

const database = useTestDatabase()

const SERVICES = ['acme', 'beta']
const [ACME, BETA] = [0, 1]
beforeEach(async () => {
  await database.query('truncate fillrate.services, fillrate.rows')
  for (const name of SERVICES)
    await recordServiceName(database.db, await insertService(database.db, `${name}.example`, []), name)
})

/** @param leaseMs below 0: its process is dead */
const startRun = (leaseMs: number, services: readonly number[] = [ACME, BETA]): Promise<number> =>
  beginRun(database.db, {
    sources: ['people'],
    leaseMs,
    scopes: Object.fromEntries(services.map((one) => [one, `${one} key`])),
  })
const insertRow = (run: number, service: number, state: string) =>
  database.query(
    `insert into fillrate.rows (source, key, run_id, service_id, input_hash, state, settled_at)
     values ('people', '1', $1, $2, 1, $3, case when $3 <> 'waiting' then now() end)`,
    [run, service, state],
  )
const readRow = () =>
  database.query('select run_id::int as run, service_id as service, state from fillrate.rows')

const turn = {
  service: 'acme',
  isFirst: true,
  services: SERVICES,
  next: { service: 'beta', when: 'miss' },
  takes: null,
  details: [],
} as const

test.each([
  { state: 'not_found', services: [ACME, BETA], after: { service: BETA, state: 'waiting' } },
  { state: 'enriched', services: [ACME, BETA], after: { service: ACME, state: 'enriched' } },
  // A remap calls none.
  { state: 'not_found', services: [], after: { service: ACME, state: 'not_found' } },
])('a row that is $state in a run with the services $services', async ({ state, services, after }) => {
  const run = await startRun(60_000, services)
  await insertRow(run, ACME, state)
  await inTransaction(database.db, (tx) => moveToNextStep(tx, 'people', ['1'], turn))
  expect(await readRow()).toEqual([{ run, ...after }])
})

test.each([
  {
    before: 'is dead, although no process has noticed',
    leaseMs: -1_000,
    services: [ACME, BETA],
    isResumed: true,
  },
  { before: 'runs', leaseMs: 60_000, services: [ACME, BETA], isResumed: false },
  {
    before: 'is dead, and that service is not of the next run',
    leaseMs: -1_000,
    services: [ACME],
    isResumed: false,
  },
])('a row that waits at a later service, and whose run $before', async ({ leaseMs, services, isResumed }) => {
  const former = await startRun(leaseMs)
  const run = await startRun(60_000, services)
  await insertRow(former, BETA, 'waiting')
  const resume = () =>
    inTransaction(database.db, (tx) =>
      resumeAtLaterStep(tx, 'people', ['1'], { run, service: ACME, services: SERVICES }),
    )
  expect(await resume()).toEqual(isResumed ? ['1'] : [])
  expect(await readRow()).toEqual([{ run: isResumed ? run : former, service: BETA, state: 'waiting' }])
})

test('a row whose inputs have changed begins anew with the first service, in its run', async () => {
  const run = await startRun(60_000)
  await insertRow(run, BETA, 'waiting')
  await inTransaction(database.db, (tx) => beginAnew(tx, 'people', ['1'], turn))
  expect(await readRow()).toEqual([{ run, service: ACME, state: 'waiting' }])
})
