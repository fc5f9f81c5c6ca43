import { sql } from 'kysely'
import { ERASE_AFTER_MS, isEraseHeld } from '../domain/deleted-row.ts'
import { deletedKeysSql, findDeletedKeys } from '../sources/deleted-keys.ts'
import { mayHideRows } from '../sources/row-security.ts'
import type { Source } from '../sources/source.ts'
import * as store from '../store/deleted-rows.ts'
import { findJobsOfLookups, listDeliveriesOfJobs, lockDeliveries } from '../store/erase.ts'
import type { Database } from '../store/open.ts'
import { inTransaction, withTableTimeouts, type Connection, type Tx } from '../store/transaction.ts'
import type { Deps } from './deps.ts'
import { findResultSubjects, redactResults, type DeliveryBody } from './erasure.ts'
import { lockCandidateJobs } from './match-delivery.ts'

type DeletionDeps = Pick<Deps, 'db' | 'policy'>

/** Keys compared with the table in one tick: an index probe each. */
const COMPARED_KEYS = 10_000
/** Ticks at once: a second connection halves the time on a server that has nothing else to do. */
const COMPARED_AT_ONCE = 2
/** Rows erased in one tick. Few, because the bodies of their deliveries are rewritten. */
const ERASED_ROWS = 200

/**
 * Compares all rows that Fillrate knows of a source with their table, and sets aside those that it no longer has.
 * @returns how many
 * @throws TableBusyError if another transaction has locked the table
 */
export const setAllAside = (deps: DeletionDeps, source: Source, signal: AbortSignal): Promise<number> =>
  compareAll(deps, source, 'rows', (range) => setAsideDeleted(deps, source, range), signal)

/**
 * Compares all rows that are set aside with their table, and restores those that it has again.
 * @returns how many
 * @throws TableBusyError if another transaction has locked the table
 */
export async function restoreAllReturned(
  deps: DeletionDeps,
  source: Source,
  signal: AbortSignal,
): Promise<number> {
  // Mostly none.
  if ((await store.countDeletedRows(deps.db, [source.name])).length === 0) return 0
  return compareAll(deps, source, 'deleted_rows', (range) => restoreReturned(deps, source, range), signal)
}

async function compareAll(
  { db }: DeletionDeps,
  source: Source,
  table: 'rows' | 'deleted_rows',
  compare: (range: store.KeyTextRange) => Promise<number>,
  signal: AbortSignal,
): Promise<number> {
  async function* listRanges(): AsyncGenerator<store.KeyTextRange, void> {
    for (let after: string | null = ''; after !== null && !signal.aborted;) {
      const until: string | null = await store.findRangeEnd(db, table, source.name, after, COMPARED_KEYS)
      yield { after, until }
      after = until
    }
  }
  // Shared: each worker takes the next range, and the first that fails ends it for all.
  const ranges = listRanges()
  let rows = 0
  const work = async (): Promise<void> => {
    for await (const range of ranges) {
      const compared = await compare(range)
      rows += compared
    }
  }
  const ended = await Promise.allSettled(Array.from({ length: COMPARED_AT_ONCE }, work))
  for (const one of ended) if (one.status === 'rejected') throw one.reason
  return rows
}

/** Sets aside those rows of a range that the table no longer has. @returns how many */
async function setAsideDeleted(
  deps: DeletionDeps,
  source: Source,
  range: store.KeyTextRange,
): Promise<number> {
  const setAside = async (tx: Tx, deleted: readonly string[]): Promise<number> => {
    if (deleted.length === 0) return 0
    return (await store.setRowsAside(tx, source.name, deleted, await readFate(tx, source))).length
  }
  const { db, policy } = deps
  const found = await inTransaction(
    db,
    async (tx) => {
      const deleted = await withTableTimeouts(tx, policy.sourceTimeoutMs, () =>
        findDeletedIn(tx, source, range),
      )
      return deleted === null ? null : setAside(tx, deleted)
    },
    policy.sourceTimeoutMs,
  )
  return (
    found ??
    compareKeys(deps, source, range, store.listRowKeys, (tx, _keys, deleted) => setAside(tx, deleted))
  )
}

/** What becomes of deleted rows of a source now. */
export const readFate = async (db: Connection, source: Source): Promise<store.DeletionFate> => ({
  isKept: source.mapping.onDelete === 'keep',
  mayBeHidden: await mayHideRows(db, source),
})

/**
 * The deleted rows of a range, compared in Postgres: to transfer the keys of every row took longer than a pass over them.
 * @returns null if their texts do not tell
 */
async function findDeletedIn(
  tx: Tx,
  source: Source,
  range: store.KeyTextRange,
): Promise<readonly string[] | null> {
  const keysSql = deletedKeysSql(source)
  if (keysSql === null) return null
  const { rows } = await sql<{ isPlain: boolean; deleted: string[] }>`
    with known as materialized (
      select coalesce(bool_and(${keysSql.isPlain}), true) as is_plain, coalesce(array_agg(key), '{}') as keys
        from fillrate.rows where ${store.inRangeSql(source.name, range)}
    )
    select (select is_plain from known) as "isPlain", ${keysSql.deleted} as deleted`.execute(tx)
  return rows[0]?.isPlain === true ? rows[0].deleted : null
}

/** Restores those rows of a range that the table has again. @returns how many */
const restoreReturned = (deps: DeletionDeps, source: Source, range: store.KeyTextRange): Promise<number> =>
  compareKeys(deps, source, range, store.listDeletedKeys, (tx, keys, deleted) =>
    store.restoreRows(tx, source.name, without(keys, deleted)),
  )

const compareKeys = (
  { db, policy }: DeletionDeps,
  source: Source,
  range: store.KeyTextRange,
  list: typeof store.listRowKeys,
  act: (tx: Tx, keys: readonly string[], deleted: readonly string[]) => Promise<number>,
): Promise<number> =>
  inTransaction(
    db,
    async (tx) => {
      const keys = await list(tx, source.name, range)
      return act(tx, keys, await findDeleted(tx, source, keys, policy.sourceTimeoutMs))
    },
    policy.sourceTimeoutMs,
  )

const findDeleted = (tx: Tx, source: Source, keys: readonly string[], timeoutMs: number): Promise<string[]> =>
  keys.length === 0
    ? Promise.resolve([])
    : withTableTimeouts(tx, timeoutMs, () => findDeletedKeys(tx, source, keys))

const without = (keys: readonly string[], excluded: readonly string[]): string[] => {
  const set = new Set(excluded)
  return keys.filter((key) => !set.has(key))
}

export interface EraseOptions {
  /** A user has confirmed it: neither the share of the source nor the age of the deletion matters. */
  readonly isConfirmed: boolean
}

/** What one tick erased. Zero rows: nothing is to be erased now. */
export interface ErasedDeletedRows extends store.ErasedRows {
  /** Results removed from deliveries. */
  readonly results: number
  readonly restored: number
}

/**
 * Erases one batch of deleted rows: what Fillrate stored of them, and the lookups that no other row needs. Each key is
 * compared with the table once more, and a row that is there again is restored.
 * @throws TableBusyError if another transaction has locked the table
 */
export async function eraseDeleted(
  { db, policy }: DeletionDeps,
  source: Source,
  { isConfirmed }: EraseOptions,
): Promise<ErasedDeletedRows> {
  const { name } = source
  return inTransaction(db, async (tx) => {
    if (!isConfirmed && isEraseHeld(await store.countSourceDeletions(tx, name))) return NOTHING_ERASED
    const keys = await store.lockErasableRows(tx, name, {
      minAgeMs: isConfirmed ? 0 : ERASE_AFTER_MS,
      includeKept: isConfirmed,
      limit: ERASED_ROWS,
    })
    const deleted = await findDeleted(tx, source, keys, policy.sourceTimeoutMs)
    const restored = await store.restoreRows(tx, name, without(keys, deleted))
    if (deleted.length === 0) return { ...NOTHING_ERASED, restored }
    return { ...(await eraseKeys(tx, name, deleted)), restored }
  })
}

async function eraseKeys(
  tx: Tx,
  source: string,
  keys: readonly string[],
): Promise<store.ErasedRows & Pick<ErasedDeletedRows, 'results'>> {
  const lookups = await store.lockUnneededLookups(tx, source, keys)
  const results = await eraseResults(tx, lookups)
  const ids = lookups.map((lookup) => lookup.id)
  return { ...(await store.eraseRows(tx, source, keys, ids)), results }
}

/**
 * Erases the deleted rows of a source that is retired, whose table cannot be compared: those that the next runs would have erased.
 * @returns how many wait for an answer that is on its way, and cannot be erased before
 */
export async function eraseRetired(db: Database, source: string): Promise<number> {
  for (;;) {
    const left = await inTransaction(db, async (tx) => {
      const counts = await store.countSourceDeletions(tx, source)
      if (counts.deleted === 0 || isEraseHeld(counts)) return 0
      const keys = await store.lockErasableRows(tx, source, {
        minAgeMs: 0,
        includeKept: false,
        limit: ERASED_ROWS,
      })
      if (keys.length === 0) return counts.deleted
      await eraseKeys(tx, source, keys)
      return null
    })
    if (left !== null) return left
  }
}

const NOTHING_ERASED: ErasedDeletedRows = {
  rows: 0,
  lookups: 0,
  records: 0,
  changes: 0,
  results: 0,
  restored: 0,
}

/** Matches nothing, in Postgres and in JavaScript: deliveries are found by their jobs. */
const NO_TEXT = '(?!)'

/** Removes the results of these lookups from the deliveries of their jobs. */
async function eraseResults(tx: Tx, lookups: readonly store.UnneededLookup[]): Promise<number> {
  const ids = new Set(lookups.map((lookup) => lookup.id))
  const jobKeys = await findJobsOfLookups(tx, [...ids])
  if (jobKeys.length === 0) return 0
  const deliveries = await lockDeliveries(tx, await listDeliveriesOfJobs(tx, jobKeys), NO_TEXT)
  const bodies = deliveries.flatMap((one): DeliveryBody[] =>
    one.body === null ? [] : [{ ...one, body: one.body }],
  )
  const identifiers = new Set(lookups.map(({ kind, key }) => `${kind}\n${key}`))
  const subjects = findResultSubjects(bodies, await lockCandidateJobs(tx, deliveries)).filter(
    ({ member, identifiers: named }) =>
      member === null
        ? named.some(({ kind, key }) => identifiers.has(`${kind}\n${key}`))
        : ids.has(member.id),
  )
  await redactResults(
    tx,
    bodies,
    subjects.map((one) => ({ ...one, redacted: null })),
  )
  return subjects.length
}
