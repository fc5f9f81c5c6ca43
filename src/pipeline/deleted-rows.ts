import { sql } from 'kysely'
import { ERASE_AFTER_MS, isEraseHeld } from '../domain/deleted-row.ts'
import { deletedKeysSql, findDeletedKeys } from '../sources/deleted-keys.ts'
import { mayHideRows } from '../sources/row-security.ts'
import type { Source } from '../sources/source-model.ts'
import * as store from '../store/deleted-rows.ts'
import { findJobsOfLookups, listDeliveriesOfJobs, lockDeliveries } from '../store/erase.ts'
import { inTransaction, withTableTimeouts, type Connection, type Tx } from '../store/transaction.ts'
import type { TableDeps } from './deps.ts'
import { findResultSubjects, redactResults, type DeliveryBody } from './erasure.ts'
import { lockCandidateJobs } from './match-delivery.ts'

type DeletionDeps = TableDeps

/** Keys compared with the table in one tick: an index probe each. */
const COMPARED_KEYS = 10_000
/** Rows erased in one tick. Few, because the bodies of their deliveries are rewritten. */
const ERASED_ROWS = 200

/**
 * Compares all rows that Fillrate knows of a source with their table, and marks those as deleted that it no longer has.
 * @returns how many
 * @throws TableBusyError if another transaction has locked the table
 */
export const markAllDeleted = (deps: DeletionDeps, source: Source, signal: AbortSignal): Promise<number> =>
  compareAll(deps, source, { isDeleted: false }, signal)

/**
 * Compares all deleted rows with their table, and restores those that it has again.
 * @returns how many
 * @throws TableBusyError if another transaction has locked the table
 */
export const restoreAllReturned = (
  deps: DeletionDeps,
  source: Source,
  signal: AbortSignal,
): Promise<number> => compareAll(deps, source, { isDeleted: true }, signal)

async function compareAll(
  deps: DeletionDeps,
  source: Source,
  which: Pick<store.RowRange, 'isDeleted'>,
  signal: AbortSignal,
): Promise<number> {
  let rows = 0
  for (let after: string | null = ''; after !== null && !signal.aborted;) {
    const rest: store.RowRange = { ...which, after, until: null }
    const until: string | null = await store.findRangeEnd(deps.db, source.name, rest, COMPARED_KEYS)
    rows += await compareRange(deps, source, { ...rest, until })
    after = until
  }
  return rows
}

/** Marks those rows of a range that the table no longer has, or restores those that it has again. @returns how many */
const compareRange = (
  { db, policy: { sourceTimeoutMs } }: DeletionDeps,
  source: Source,
  range: store.RowRange,
): Promise<number> =>
  inTransaction(
    db,
    async (tx) => {
      const compared = await withTableTimeouts(tx, sourceTimeoutMs, () => findDeletedIn(tx, source, range))
      if (compared !== null) return markDeleted(tx, source, compared)
      const keys = await store.listRowKeys(tx, source.name, range)
      const deleted = await findDeleted(tx, source, keys, sourceTimeoutMs)
      return range.isDeleted
        ? store.restoreRows(tx, source.name, without(keys, deleted))
        : markDeleted(tx, source, deleted)
    },
    sourceTimeoutMs,
  )

/** Marks rows as deleted that the table does not have. @returns how many */
export const markDeleted = async (tx: Tx, source: Source, keys: readonly string[]): Promise<number> =>
  keys.length === 0 ? 0 : store.markRowsDeleted(tx, source.name, keys, await readFate(tx, source))

/** What becomes of deleted rows of a source now. */
export const readFate = async (db: Connection, source: Source): Promise<store.DeletionFate> => ({
  isKept: source.mapping.onDelete === 'keep',
  mayBeHidden: await mayHideRows(db, source),
})

/**
 * The rows of a range that are deleted, compared in Postgres: to transfer the keys of every row took longer than a pass over them.
 * @returns null if their texts do not tell, or they are deleted ones, which are few
 */
async function findDeletedIn(
  tx: Tx,
  source: Source,
  range: store.RowRange,
): Promise<readonly string[] | null> {
  const keysSql = range.isDeleted ? null : deletedKeysSql(source)
  if (keysSql === null) return null
  const { rows } = await sql<{ isPlain: boolean; deleted: string[] }>`
    with known as materialized (
      select coalesce(bool_and(${keysSql.isPlain}), true) as is_plain, coalesce(array_agg(key), '{}') as keys
        from fillrate.rows where ${store.inRangeSql(source.name, range)}
    )
    select (select is_plain from known) as "isPlain", ${keysSql.deleted} as deleted`.execute(tx)
  return rows[0]?.isPlain === true ? rows[0].deleted : null
}

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

/** What was erased of deleted rows. */
export interface ErasedDeletedRows extends store.ErasedRows {
  /** Results removed from deliveries. */
  readonly results: number
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
): Promise<ErasedDeletedRows & { readonly restored: number }> {
  const { name } = source
  return inTransaction(db, async (tx) => {
    const isHeld = !isConfirmed && isEraseHeld(await store.countSourceDeletions(tx, name))
    const keys = await store.lockErasableRows(tx, name, {
      minAgeMs: isConfirmed ? 0 : ERASE_AFTER_MS,
      includeKept: isConfirmed,
      limit: isHeld ? 0 : ERASED_ROWS,
    })
    const deleted = await findDeleted(tx, source, keys, policy.sourceTimeoutMs)
    const restored = await store.restoreRows(tx, name, without(keys, deleted))
    return { ...(await eraseKeys(tx, name, deleted)), restored }
  })
}

async function eraseKeys(tx: Tx, source: string, keys: readonly string[]): Promise<ErasedDeletedRows> {
  const { unneeded, ...erased } = await store.eraseRows(tx, source, keys)
  const results = await eraseResults(tx, unneeded)
  const lookups = await store.eraseUnneededLookups(
    tx,
    unneeded.map((lookup) => lookup.id),
  )
  return { ...erased, ...lookups, results }
}

/** Removes the results of these lookups from the deliveries of their jobs. */
async function eraseResults(tx: Tx, lookups: readonly store.UnneededLookup[]): Promise<number> {
  const ids = new Set(lookups.map((lookup) => lookup.id))
  const jobKeys = await findJobsOfLookups(tx, [...ids])
  if (jobKeys.length === 0) return 0
  const deliveries = await lockDeliveries(tx, await listDeliveriesOfJobs(tx, jobKeys))
  const bodies = deliveries.flatMap((one): DeliveryBody[] =>
    one.body === null ? [] : [{ ...one, body: one.body }],
  )
  const identifiers = new Set(lookups.map(({ kind, key }) => `${kind}\n${key}`))
  const subjects = findResultSubjects(bodies, await lockCandidateJobs(tx, deliveries)).filter(
    ({ member, mayBe, identifiers: named }) =>
      [member, ...mayBe].some((one) => one !== null && ids.has(one.id)) ||
      (member === null && named.some(({ kind, key }) => identifiers.has(`${kind}\n${key}`))),
  )
  await redactResults(
    tx,
    bodies,
    subjects.map((one) => ({ ...one, redacted: null })),
  )
  return subjects.length
}
