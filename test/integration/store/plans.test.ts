import * as followed from '../../../src/store/changed-rows.ts'
import * as jobs from '../../../src/store/jobs.ts'
import * as leases from '../../../src/store/lookup-leases.ts'
import * as lookups from '../../../src/store/lookups.ts'
import * as remap from '../../../src/store/requeue-rows.ts'
import * as retry from '../../../src/store/requeue-rows.ts'
import * as rows from '../../../src/store/rows.ts'
import * as writeBackQueue from '../../../src/store/write-back-queue.ts'
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { completeFromDelivery } from '../../../src/store/complete-lookups.ts'
import { type Tx, inTransaction } from '../../../src/store/transaction.ts'
import { hasRequeuedRows, hasWaitingRows } from '../../../src/store/run-progress.ts'
import { type TestDatabase, createTestDatabase } from '../../support/database.ts'

/** Rows that were written long ago, and rows that wait: their lookups have the highest identifiers. */
const WRITTEN = 20_000
const WAITING = 100
const PENDING = 100

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
  await database.pool.query(`
    insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
    values ('manual', '{contacts}', 'running', 'test', gen_random_uuid(), now() + interval '1 hour');
    insert into fillrate.lookups (kind, key, input, state, run_id, record, requested_at, resolved_at, refresh_at)
    select 'email', 'p' || n || '@example.com', '{}', 'found', 1, '{"title": "Engineer"}', now(), now(), now() + interval '90 days'
      from generate_series(1, ${WRITTEN + WAITING}) n;
    insert into fillrate.rows (source, key, lookup_id, state, run_id, settled_at)
    select 'contacts', n, n, 'enriched', 1, now() from generate_series(1, ${WRITTEN}) n;
    insert into fillrate.rows (source, key, lookup_id, state, run_id)
    select 'contacts', n, n, 'waiting', 1 from generate_series(${WRITTEN + 1}, ${WRITTEN + WAITING}) n;
    insert into fillrate.write_back_queue select generate_series(${WRITTEN + 1}, ${WRITTEN + WAITING});
    insert into fillrate.lookups (kind, key, input, state, run_id)
    select 'email', 'q' || n || '@example.com', '{}', 'pending', 1 from generate_series(1, ${PENDING}) n`)
})
afterAll(() => database.drop())

/** By this connection, since it last told the server. */
async function lookedAtSoFar(tx: Tx): Promise<number> {
  const { rows: told } = await sql<{ looked: number }>`
    select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint as looked
      from pg_stat_xact_user_tables where schemaname = 'fillrate'`.execute(tx)
  return told[0]?.looked ?? 0
}

/** How many rows of our tables a step looked at, whatever it did. It is rolled back. */
async function lookedAt(step: (tx: Tx) => Promise<unknown>): Promise<number> {
  const rolledBack = new Error('rolled back')
  let looked = 0
  await inTransaction(database.db, async (tx) => {
    const before = await lookedAtSoFar(tx)
    await step(tx)
    looked = (await lookedAtSoFar(tx)) - before
    throw rolledBack
  }).catch((error: unknown) => {
    if (error !== rolledBack) throw error
  })
  return looked
}

const keys = Array.from({ length: WAITING }, (_, n) => String(WRITTEN + 1 + n))
const settled: writeBackQueue.FinishedRow[] = keys.map((key) => ({
  key,
  state: 'enriched',
  reason: null,
  written: { title: 'Engineer' },
  notes: null,
  nextAt: null,
  cells: { written: 1, protected: 0, skipped: 0 },
}))
const options = { run: 1, emails: true, limit: PENDING, leaseMs: 60_000 }

// A step that looks at the whole of a table costs nothing in a test and an hour in a table of millions.
describe.each([
  ['just filled, with no statistics', []],
  ['analyzed', ['lookups', 'rows', 'write_back_queue']],
])('in tables that are %s, no step looks at more than it works on', (_, analyzed) => {
  beforeAll(async () => {
    for (const table of analyzed) await database.pool.query(`analyze fillrate.${table}`)
  })

  test.each<[string, (tx: Tx) => Promise<unknown>]>([
    ['claim what is answered', (tx) => writeBackQueue.claimForWriteBack(tx, 'contacts', 1_000)],
    ['settle', (tx) => writeBackQueue.finishRows(tx, 'contacts', settled)],
    ['clear what is written', (tx) => writeBackQueue.dequeueWritten(tx, keys.map(Number))],
    ['clear what nobody wants', (tx) => writeBackQueue.dequeueOrphaned(tx, 1_000)],
    ['lease', (tx) => leases.leaseLookups(tx, { ...options, token: randomUUID() })],
    [
      'lease and store answers',
      async (tx) => {
        const leased = await leases.leaseLookups(tx, { ...options, token: randomUUID() })
        const now = new Date()
        const answers = leased.map(({ id, token }): leases.LookupResult => ({
          id,
          token,
          state: 'found',
          reason: null,
          attempts: 1,
          notBefore: null,
          requestedAt: now,
          resolvedAt: now,
          refreshAt: now,
          record: { title: 'Engineer' },
          confidence: 1,
        }))
        const { unstored } = await leases.completeLookups(tx, answers)
        expect(unstored).toEqual([])
      },
    ],
    [
      'store what a delivery answered',
      async (tx) => {
        const ids = Array.from({ length: PENDING }, (_, n) => WRITTEN + WAITING + 1 + n)
        const result = { reason: null, attempts: 1, notBefore: null, confidence: 1, job: randomUUID() }
        const at = { resolvedAt: new Date(), refreshAt: new Date() }
        const answers = ids.map((id) => ({ id, state: 'found' as const, record: {}, ...result, ...at }))
        expect(await completeFromDelivery(tx, answers)).toBe(PENDING)
      },
    ],
    [
      'make a job',
      async (tx) => {
        const made = await jobs.createJobs(tx, {
          run: 1,
          ids: [randomUUID()],
          least: 1,
          token: randomUUID(),
          leaseMs: 60_000,
          deadlineMs: 60_000,
        })
        expect(made).toHaveLength(1)
      },
    ],
    ['look whether there is a job to make', (tx) => jobs.findSubmittable(tx, 1, 50)],
    ['find what was left behind', (tx) => rows.listAbandonedRows(tx, 'contacts', [], '', 1_000)],
    ['find what was sent back', (tx) => rows.listRequeuedRows(tx, 'contacts', 1, '', 1_000)],
    ['find what is due', (tx) => rows.listDueRows(tx, 'contacts', '', 1_000)],
    ['look whether a row waits', (tx) => hasWaitingRows(tx, 1)],
    ['look whether a row was sent back', (tx) => hasRequeuedRows(tx, 1, ['contacts'])],
    ['adopt', (tx) => lookups.adoptLookups(tx, 1, [1], 1_000)],
    [
      'make rows due',
      (tx) =>
        retry.makeRowsDue(
          tx,
          'contacts',
          keys.map((key) => ({ key, lookup: Number(key) })),
        ),
    ],
    [
      'look whether there is something to write again',
      (tx) => remap.hasRowsToWrite(tx, 'contacts', 1, { left: true }),
    ],
    ['look whether a sync has something to ask', (tx) => followed.hasPendingLookups(tx, 1)],
    ['return what has expired', (tx) => lookups.releaseExpiredLookups(tx, 1_000)],
  ])('%s', async (_name, step) => {
    expect(await lookedAt(step)).toBeLessThan(10 * WAITING)
  })
})
