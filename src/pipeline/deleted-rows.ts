import { ERASE_AFTER_MS, isEraseHeld } from '../domain/deleted-row.ts'
import { findDeletedKeys } from '../sources/page.ts'
import type { Source } from '../sources/source-model.ts'
import * as store from '../store/deleted-rows.ts'
import { findDeliveries, findJobsOfLookups, type LinkedLookup, lockDeliveries } from '../store/erase.ts'
import { inTransaction, withTableTimeouts, type Tx } from '../store/transaction.ts'
import type { TableDeps } from './deps.ts'
import { forEachPage, refillEmptied } from './emptied-rows.ts'
import { findResultSubjects, redactResults, type DeliveryBody } from './erasure.ts'
import { lockCandidateJobs } from './match-delivery.ts'

/** Rows erased in one tick. Few, because the bodies of their deliveries are rewritten. */
const ERASED_ROWS = 200

/**
 * Marks those rows of a source as deleted that its table no longer has.
 * @returns how many
 * @throws TableBusyError if another transaction has locked the table
 */
export const markAllDeleted = (deps: TableDeps, source: Source, signal: AbortSignal): Promise<number> =>
  forEachPage(deps, source, 'present', signal, async (tx, keys) =>
    markDeleted(tx, source, await findDeletedKeys(tx, source, keys)),
  )

/** Marks rows as deleted that the table does not have. @returns how many */
export const markDeleted = (tx: Tx, source: Source, keys: readonly string[]): Promise<number> =>
  store.markRowsDeleted(tx, source.name, keys, isKept(source))

/** What is stored of the deleted rows of a source is kept. */
export const isKept = ({ mapping }: Source): boolean => mapping.onDelete === 'keep'

/**
 * Restores those deleted rows of a source that its table has again.
 * @returns how many
 * @throws TableBusyError if another transaction has locked the table
 */
export const restoreAllReturned = (deps: TableDeps, source: Source, signal: AbortSignal): Promise<number> =>
  forEachPage(deps, source, 'deleted', signal, async (tx, keys) =>
    restoreReturned(tx, source, keys, await findDeletedKeys(tx, source, keys)),
  )

/** Restores those of some deleted rows that are not `gone`, and makes those due that were inserted without what Fillrate wrote. */
async function restoreReturned(
  tx: Tx,
  source: Source,
  keys: readonly string[],
  gone: readonly string[],
): Promise<number> {
  const isGone = new Set(gone)
  const present = keys.filter((key) => !isGone.has(key))
  const restored = await store.restoreRows(tx, source.name, present)
  await refillEmptied(tx, source, restored)
  return restored.length
}

/**
 * Erases one batch of deleted rows: what Fillrate stored of them, and the lookups that no other row needs. Each key is
 * compared with the table once more, and a row that is there again is restored.
 * @throws TableBusyError if another transaction has locked the table
 */
export async function eraseDeleted(
  { db, policy }: TableDeps,
  source: Source,
  isConfirmed: boolean,
): Promise<{ readonly erased: store.ErasedRows; readonly restored: number }> {
  const { name } = source
  return inTransaction(db, async (tx) => {
    const isHeld = !isConfirmed && isEraseHeld(await store.countSourceDeletions(tx, name))
    const keys = await store.lockErasableRows(tx, name, {
      minAgeMs: isConfirmed ? 0 : ERASE_AFTER_MS,
      includeKept: isConfirmed,
      limit: isHeld ? 0 : ERASED_ROWS,
    })
    const find = (): Promise<string[]> => findDeletedKeys(tx, source, keys)
    const deleted = keys.length === 0 ? [] : await withTableTimeouts(tx, policy.sourceTimeoutMs, find)
    const restored = await restoreReturned(tx, source, keys, deleted)
    const { unneeded, ...erased } = await store.eraseRows(tx, name, deleted)
    const results = await eraseResults(tx, unneeded)
    const ids = unneeded.map(({ id }) => id)
    return { erased: { ...erased, ...(await store.eraseUnneededLookups(tx, ids)), results }, restored }
  })
}

/** Removes the results of these lookups from the deliveries of their jobs. */
async function eraseResults(tx: Tx, lookups: readonly LinkedLookup[]): Promise<number> {
  const ids = new Set(lookups.map((lookup) => lookup.id))
  const jobKeys = await findJobsOfLookups(tx, [...ids])
  if (jobKeys.length === 0) return 0
  const deliveries = await lockDeliveries(tx, await findDeliveries(tx, jobKeys, null))
  const bodies = deliveries.flatMap(({ body, ...delivery }): DeliveryBody[] =>
    body === null ? [] : [{ ...delivery, body }],
  )
  const identifiers = new Set(lookups.map(({ kind, key }) => `${kind}\n${key}`))
  const subjects = findResultSubjects(bodies, await lockCandidateJobs(tx, deliveries)).filter(
    ({ member, mayBe, identifiers: named }) =>
      [member, ...mayBe].some((member) => member !== null && ids.has(member.id)) ||
      (member === null && named.some(({ kind, key }) => identifiers.has(`${kind}\n${key}`))),
  )
  await redactResults(
    tx,
    bodies,
    subjects.map((subject) => ({ ...subject, redacted: null })),
  )
  return subjects.length
}
