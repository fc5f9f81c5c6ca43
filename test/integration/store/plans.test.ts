import * as changes from '../../../src/store/changes.ts'
import * as jobs from '../../../src/store/jobs.ts'
import * as leases from '../../../src/store/lookup-leases.ts'
import * as lookups from '../../../src/store/lookups.ts'
import * as remap from '../../../src/store/remap.ts'
import * as rows from '../../../src/store/rows.ts'
import * as writeBackQueue from '../../../src/store/write-back-queue.ts'
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { SkippedCell } from '../../../src/domain/skipped-cell.ts'
import { readBudgetUsage, readProspect } from '../../../src/store/budgets.ts'
import { deleteChanges, deleteExpired } from '../../../src/store/retention.ts'
import { listChangeHistory } from '../../../src/store/row-history.ts'
import { listAbandonedChanges } from '../../../src/store/changed-rows.ts'
import {
  countAwaitedJobs,
  findWaitingRows,
  hasAnsweredLookups,
  hasWorkUnderWay,
  readLookupTotals,
  listSettled,
  readSampledAnswers,
  readWaitingCounts,
} from '../../../src/store/run-progress.ts'
import { inTransaction, type Tx } from '../../../src/store/transaction.ts'
import { replaceSkippedCells } from '../../../src/store/skipped-cells.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { BULK } from '../../support/bulk.ts'
import { tuplesReadSoFar } from '../../support/tuples-read.ts'
import { hasPendingLookups } from '../../../src/store/pending-lookups.ts'

const TABLES = ['lookups', 'rows', 'changes', 'answered_lookups', 'skipped_cells']

/** Rows that were written long ago, and waiting rows, whose lookups have the highest ids. */
const WRITTEN = 20_000
const WAITING = 100
const PENDING = 100

/** The run that waits. The statistics of the third case know nothing of it. */
const RUN = 2
const OF_RUN = { run: RUN, service: 0 }
const CONTACTS = { service: 0, sources: ['contacts'] }

let database: TestDatabase

const insertFound = (run: number, from: number, to: number): string => `
  insert into fillrate.lookups (kind, key, input, state, run_id, record, requested_at, resolved_at, refresh_at)
  select 'email', 'p' || n || '@example.com', '{}', 'found', ${run}, '{"title": "Engineer"}', now(), now(), now() + interval '90 days'
    from generate_series(${from}, ${to}) n`

const insertChanges = (run: number, from: number, to: number): string => `
  insert into fillrate.changes (run_id, source, key, before, after)
  select ${run}, 'contacts', n, '{}', '{"title": "Engineer"}' from generate_series(${from}, ${to}) n`

async function createTables(analyzedBefore: readonly string[]): Promise<void> {
  database = await createTestDatabase()
  const analyze = analyzedBefore.map((table) => `analyze fillrate.${table};`).join(' ')
  await database.query(`
    insert into fillrate.runs (trigger, sources, options, state, owner, lease_token, leased_until)
    select 'follow', '{contacts}', '{"follow": true}', 'running', 'test', gen_random_uuid(), now() - interval '1 hour' from generate_series(1, ${RUN});
    ${insertFound(1, 1, WRITTEN)};
    insert into fillrate.rows (source, key, lookup_id, state, run_id, settled_at)
    select 'contacts', n, n, 'enriched', 1, now() from generate_series(1, ${WRITTEN}) n;
    insert into fillrate.skipped_cells (source, key, "column", reason)
    select 'contacts', n, 'phone', 'too_long' from generate_series(1, ${WRITTEN}) n;
    ${insertChanges(1, 1, WRITTEN + WAITING)};
    ${analyze}
    ${insertChanges(RUN, WRITTEN + 1, WRITTEN + WAITING)};
    ${insertFound(RUN, WRITTEN + 1, WRITTEN + WAITING)};
    insert into fillrate.rows (source, key, lookup_id, state, run_id, input_hash)
    select 'contacts', n, n, 'waiting', ${RUN}, 0 from generate_series(${WRITTEN + 1}, ${WRITTEN + WAITING}) n;
    insert into fillrate.answered_lookups select n from generate_series(${WRITTEN + 1}, ${WRITTEN + WAITING}) n;
    insert into fillrate.lookups (kind, key, input, state, run_id)
    select 'email', 'q' || n || '@example.com', '{"email": "q@example.com"}', 'pending', ${RUN} from generate_series(1, ${PENDING}) n`)
}

/** The number of rows of our tables that a step reads. It is rolled back. */
async function countTuplesRead(step: (tx: Tx) => Promise<unknown>, planning = 'auto'): Promise<number> {
  const rolledBack = new Error('rolled back')
  let reads = 0
  await inTransaction(database.db, async (tx) => {
    await sql`select set_config('plan_cache_mode', ${planning}, true)`.execute(tx)
    const before = await tuplesReadSoFar(tx)
    await step(tx)
    reads = (await tuplesReadSoFar(tx)) - before
    throw rolledBack
  }).catch((error: unknown) => {
    if (error !== rolledBack) throw error
  })
  return reads
}

const skip: SkippedCell = { column: 'phone', reason: 'too_long', detail: null, value: '+47' }
/** As a dry run has them. */
const SAMPLED = Array.from({ length: WAITING }, (_, n) => ({
  key: String(WRITTEN + 1 + n),
  inputHash: '0',
  service: 0,
  source: 'contacts',
  lookup: WRITTEN + 1 + n,
}))
const keys = Array.from({ length: WAITING }, (_, n) => String(WRITTEN + 1 + n))
const finished: writeBackQueue.FinishedRow[] = keys.map((key) => ({
  key,
  state: 'enriched',
  reason: null,
  change: { before: {}, after: { title: 'Engineer' }, writtenBefore: null, earlierBefore: null },
  notes: null,
  nextAt: null,
  cells: { written: 1, protected: 0, skipped: 0 },
  skipped: [skip],
}))
/** The changes of the run, and their undo. */
const values = { before: {}, after: { title: 'Engineer' }, writtenBefore: null, earlierBefore: null }
const written = keys.map((key) => ({ ...values, id: Number(key) + WAITING, key }))
const reverting = written.map(({ id, ...change }) => ({
  ...change,
  inputHash: '1',
  run: RUN,
  lookup: null,
  undoes: id,
}))

/** Claims rows for write-back, and looks which of their lookups are written. */
async function dequeueClaimed(tx: Tx, limit: number, source = 'contacts'): Promise<void> {
  const { rows: claimed, entries } = await writeBackQueue.claimForWriteBack(tx, source, limit)
  expect(claimed.length).toBeGreaterThanOrEqual(WAITING)
  await writeBackQueue.dequeueWritten(tx, entries)
}

const options = { ...OF_RUN, bulk: BULK, limit: PENDING, leaseMs: 60_000 }

// A step that reads a whole table costs nothing in a test, and an hour with millions of rows.
describe.each<[string, { readonly before: readonly string[]; readonly after: readonly string[] }]>([
  ['just filled, with no statistics', { before: [], after: [] }],
  ['analyzed', { before: [], after: TABLES }],
  ['analyzed before the rows of this run came', { before: TABLES, after: [] }],
])('in tables that are %s, no step reads more than it works on', (_, analyzed) => {
  beforeAll(async () => {
    await createTables(analyzed.before)
    for (const table of analyzed.after) await database.query(`analyze fillrate.${table}`)
  })
  afterAll(() => database.drop())

  test.each<[string, (tx: Tx) => Promise<unknown>]>([
    ['claim rows for write-back', (tx) => writeBackQueue.claimForWriteBack(tx, 'contacts', 1_000)],
    ['finish rows', (tx) => writeBackQueue.finishRows(tx, 'contacts', finished)],
    [
      'replace skipped cells',
      (tx) =>
        replaceSkippedCells(
          tx,
          'contacts',
          Array.from({ length: PENDING }, (_, n) => ({ key: String(n + 1), lookup: n + 1, skipped: [skip] })),
        ),
    ],
    ['dequeue written lookups', (tx) => dequeueClaimed(tx, 1_000)],
    ['dequeue orphaned lookups', (tx) => writeBackQueue.dequeueOrphaned(tx, 1_000)],
    ['lease lookups', (tx) => leases.leaseLookups(tx, { ...options, token: randomUUID() })],
    [
      'lease lookups and store results',
      async (tx) => {
        const leased = await leases.leaseLookups(tx, { ...options, token: randomUUID() })
        const now = new Date()
        const results = leased.map(({ id, token }): leases.LookupResult => ({
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
        const half = results.splice(PENDING / 2)
        for (const stored of [results, half]) {
          const { unstored } = await leases.completeLookups(tx, stored, { ...options, token: randomUUID() })
          expect(unstored).toEqual([])
        }
      },
    ],
    [
      'store results of a delivery',
      async (tx) => {
        const ids = Array.from({ length: PENDING }, (_, n) => WRITTEN + WAITING + 1 + n)
        const result = { reason: null, attempts: 1, notBefore: null, confidence: 1 }
        const at = { requestedAt: new Date(), resolvedAt: new Date(), refreshAt: new Date() }
        const results = ids.map((id, n) => ({
          id,
          job: randomUUID(),
          reserved: null,
          isOpen: n % 2 === 0,
          state: 'found' as const,
          record: {},
          ...result,
          ...at,
        }))
        expect(await leases.completeFromDelivery(tx, results)).toHaveLength(PENDING)
      },
    ],
    [
      'create a job',
      async (tx) => {
        const made = await jobs.createJobs(tx, {
          run: RUN,
          service: 0,
          ids: [randomUUID()],
          least: 1,
          token: randomUUID(),
          leaseMs: 60_000,
          deadlineMs: 60_000,
        })
        expect(made).toHaveLength(1)
      },
    ],
    [
      'check for a job to submit',
      (tx) => jobs.findSubmittable(tx, OF_RUN, [{ kinds: ['email'], least: 50 }]),
    ],
    ['list abandoned rows', (tx) => rows.listAbandonedRows(tx, 'contacts', [], '', 1_000)],
    ['list requeued rows', (tx) => rows.listRequeuedRows(tx, 'contacts', OF_RUN, '', 1_000)],
    ['count the rows of a source by state', (tx) => rows.countRowStates(tx, { sources: ['contacts'] })],
    ['count what rows wait for', (tx) => readWaitingCounts(tx, RUN, ['contacts'], [RUN])],
    [
      'count what rows of a dry run wait for',
      (tx) => readWaitingCounts(tx, RUN, ['contacts'], [RUN], [], [RUN], SAMPLED),
    ],
    ['count the jobs of a dry run', (tx) => countAwaitedJobs(tx, RUN, SAMPLED)],
    [
      'list what a dry run waits for no more',
      (tx) =>
        listSettled(
          tx,
          SAMPLED.map(({ lookup }) => lookup),
        ),
    ],
    ['read the answers of a dry run', (tx) => readSampledAnswers(tx, 'contacts', SAMPLED)],
    ['list abandoned rows of live sync', (tx) => listAbandonedChanges(tx, ['contacts'], 1_000)],
    ['check for waiting rows', (tx) => findWaitingRows(tx, RUN, [CONTACTS])],
    ['check for work under way', (tx) => hasWorkUnderWay(tx, RUN)],
    ['check what leaves more of a budget', (tx) => readProspect(tx, OF_RUN)],
    ['read what a budget has used', (tx) => readBudgetUsage(tx, OF_RUN)],
    ['count awaited jobs', (tx) => countAwaitedJobs(tx, RUN)],
    [
      'count the lookups of a run',
      async (tx) => {
        const counted = { distinct: WAITING, stored: 0, requested: WAITING, found: WAITING }
        expect(await readLookupTotals(tx, RUN)).toMatchObject(counted)
      },
    ],
    [
      'check for answered lookups',
      async (tx) => {
        expect(await hasAnsweredLookups(tx, OF_RUN)).toBe(false)
      },
    ],
    [
      'delete runs',
      async (tx) => {
        expect(await deleteExpired(tx, 'runs', 0, 500)).toBe(0)
      },
    ],
    ['adopt lookups', (tx) => lookups.adoptLookups(tx, OF_RUN, [1])],
    [
      'make rows due',
      (tx) =>
        rows.makeRowsDue(
          tx,
          'contacts',
          keys.map((key) => ({ key, lookup: Number(key) })),
        ),
    ],
    ['check for rows to write again', (tx) => remap.hasRowsToWrite(tx, 'contacts', RUN, { left: true })],
    [
      'lock changes to undo',
      async (tx) => {
        const ids = written.map(({ id }) => id)
        expect(await changes.lockUndoable(tx, RUN, ids)).toEqual(new Set(ids))
      },
    ],
    [
      'record an undo, and read it',
      async (tx) => {
        await changes.insertReverting(tx, 'contacts', reverting)
        expect(await changes.summarizeUndoable(tx, RUN)).toMatchObject({
          undone: WAITING,
        })
        expect(await listChangeHistory(tx, 'contacts', keys[0] ?? '')).toMatchObject([
          { undone_by: null, undoes: RUN },
          { undone_by: RUN },
          { undone_by: null },
        ])
      },
    ],
    ['check for pending lookups of live sync', (tx) => hasPendingLookups(tx, OF_RUN)],
    ['release expired lookups', (tx) => lookups.releaseExpiredLookups(tx, 1_000)],
    [
      'delete old changes, which were analyzed long ago',
      async (tx) => {
        await sql`analyze fillrate.changes`.execute(tx)
        expect(await deleteChanges(tx, 0, WAITING)).toBe(WAITING)
      },
    ],
  ])('%s', async (name, step) => {
    // A prepared statement is planned without its parameters after a while.
    for (const planning of name.startsWith('lease') || name.startsWith('create')
      ? ['auto', 'force_generic_plan']
      : ['auto'])
      expect(await countTuplesRead(step, planning)).toBeLessThan(10 * WAITING)
  })

  test('a run that is deleted lets go of its lookups', async () => {
    await inTransaction(database.db, async (tx) => {
      const before = await tuplesReadSoFar(tx, 'lookups')
      await sql`delete from fillrate.runs where id = ${RUN}`.execute(tx)
      expect((await tuplesReadSoFar(tx, 'lookups')) - before).toBeLessThan(10 * WAITING)
    })
  })
})

const MANY = 20_000

// What is answered is walked through whole, and for each entry one row of each table is read, by its index.
describe.each<[string, readonly string[], readonly string[]]>([
  ['with no statistics', [], []],
  ['analyzed', [], TABLES],
  ['analyzed before most of it came', TABLES, []],
])('in a long queue, %s', (_, analyzedBefore, analyzedAfter) => {
  beforeAll(() => createTables(analyzedBefore))
  afterAll(() => database.drop())

  const fill = async (statements: string): Promise<void> => {
    await database.query(statements)
    for (const table of analyzedAfter) await database.query(`analyze fillrate.${table}`)
  }

  test(`rows are claimed beside ${MANY} entries of another source`, async () => {
    const first = WRITTEN + WAITING + PENDING + 1
    await fill(`
      ${insertFound(1, first, first + MANY - 1)};
      insert into fillrate.rows (source, key, lookup_id, state, run_id, input_hash)
      select 'others', n, n, 'waiting', 1, 0 from generate_series(${first}, ${first + MANY - 1}) n;
      create temp table contacts as select * from fillrate.answered_lookups;
      truncate fillrate.answered_lookups;
      insert into fillrate.answered_lookups select n from generate_series(${first}, ${first + MANY - 1}) n;
      insert into fillrate.answered_lookups select * from contacts`)
    const claim = await countTuplesRead((tx) => dequeueClaimed(tx, 1_000))
    expect(claim).toBeLessThan(3 * MANY + 10 * WAITING)
    // The largest batch.
    expect(await countTuplesRead((tx) => dequeueClaimed(tx, 4_000, 'others'))).toBeLessThan(25_000)
    expect(await countTuplesRead((tx) => writeBackQueue.dequeueOrphaned(tx, 1_000))).toBeLessThan(3 * MANY)
    const search = await countTuplesRead(async (tx) => {
      await sql`delete from fillrate.answered_lookups where lookup_id < ${first}`.execute(tx)
      expect(await hasWorkUnderWay(tx, RUN)).toBe(false)
    })
    expect(search).toBeLessThan(4 * MANY)
    expect(await countTuplesRead((tx) => writeBackQueue.listQueuedSources(tx, 1_000))).toBeLessThan(5_000)
  })

  test(`rows are claimed of ${MANY} that share a lookup`, async () => {
    const [lookup] = await database.query<{ id: number }>(
      `select max(lookup_id)::int as id from fillrate.answered_lookups`,
    )
    await fill(`
      insert into fillrate.rows (source, key, lookup_id, state, run_id, input_hash)
      select 'contacts', 's' || n, ${lookup?.id}, 'waiting', ${RUN}, 0 from generate_series(1, ${MANY}) n;
      truncate fillrate.answered_lookups;
      insert into fillrate.answered_lookups select ${lookup?.id} from generate_series(1, 100)`)
    expect(await countTuplesRead((tx) => dequeueClaimed(tx, WAITING))).toBeLessThan(10 * WAITING)
    expect(await countTuplesRead((tx) => writeBackQueue.dequeueOrphaned(tx, 1_000))).toBeLessThan(
      10 * WAITING,
    )
  })
})
