import { setTimeout as sleep } from 'node:timers/promises'
import type { Source } from '../../sources/source.ts'
import { writeBatch, type WriteResult } from '../../sources/write.ts'
import * as changes from '../../store/changes.ts'
import { onUsersTable, TableBusy } from '../../store/conflict.ts'
import * as leftRows from '../../store/left-rows.ts'
import * as rows from '../../store/rows.ts'
import { inTransaction } from '../../store/transaction.ts'
import type { Deps } from '../deps.ts'
import { busyInWords, paceOf, timeLimitOf, TRIES_OF_ONE } from '../pace.ts'
import { close, sift, type Fitted } from './close.ts'

/** Rows of the largest batch: one UPDATE of the source. */
const ROWS_A_TICK = 1_000

export interface WriteBackResult {
  /** Rows closed, or sent back to be picked again. */
  readonly rows: number
  readonly enriched: number
  readonly cells: number
  /** Rows that another transaction has locked: they wait on, and are tried again soon. */
  readonly left: number
  /** There may be more to do at once. */
  readonly more: boolean
}

/**
 * Writes answered rows of one source: the source's cells, the changes and the rows' states in one transaction, so
 * that a crash leaves all of it or nothing. It never waits for what a person has locked: such rows are left for later,
 * and the others are written. A batch that takes too long is given up, and the next one is smaller.
 */
export async function tick(
  deps: Pick<Deps, 'db' | 'rules' | 'meter'>,
  source: Source,
): Promise<WriteBackResult> {
  const began = performance.now()
  const did = await writeSome(deps, source)
  if (did.rows > 0) deps.meter?.wroteBack(source.name, { ms: performance.now() - began, cells: did.cells })
  return did
}

/** What a batch held, to know what to do when it is given up. */
interface Held {
  claimed: readonly rows.AnsweredRow[]
  fitted: readonly Fitted[]
}

async function writeSome(deps: Pick<Deps, 'db' | 'rules'>, source: Source): Promise<WriteBackResult> {
  const pace = paceOf(source, ROWS_A_TICK)
  for (let attempt = 1; ; attempt++) {
    const limit = pace.rows
    const held: Held = { claimed: [], fitted: [] }
    try {
      const { tookMs, ...did } = await writeBatchOf(deps, source, limit, held)
      const { length } = held.claimed
      if (length > 0) pace.took(length, tookMs)
      return { ...did, more: length >= limit / 2 && did.rows > 0 }
    } catch (error) {
      if (!(error instanceof TableBusy)) throw error
      const [first, ...others] = held.fitted
      if (error.isTable) return await leave(deps, source, held.claimed, error)
      if (first === undefined || others.length > 0) {
        pace.cut(held.claimed.length)
        return { ...NONE, more: true }
      }
      if (error.raised !== null && attempt < TRIES_OF_ONE) await sleep(20 * attempt * attempt)
      else if (error.raised !== null || error.why === 'slow') return await reject(deps, source, first, error)
      else return { ...(await leave(deps, source, [first.row], error)), more: true }
    }
  }
}

const NONE = { rows: 0, enriched: 0, cells: 0, left: 0, more: false } as const

function writeBatchOf(
  deps: Pick<Deps, 'db' | 'rules'>,
  source: Source,
  limit: number,
  held: Held,
): Promise<Omit<WriteBackResult, 'more'> & { readonly tookMs: number }> {
  return inTransaction(
    deps.db,
    async (tx) => {
      const claimed = await rows.claimAnswered(tx, source.name, limit)
      held.claimed = claimed
      if (claimed.length === 0) return { ...NONE, tookMs: 0 }
      const { settled, fitted } = sift(source, claimed)
      held.fitted = fitted
      const began = performance.now()
      const outcomes = await write(tx, source, fitted, deps.rules.sourceTimeoutMs)
      const tookMs = performance.now() - began
      const written: changes.NewChange[] = []
      const locked: string[] = []
      for (const one of fitted) {
        const result = outcomes.get(one.row.key)
        if (!result) throw new Error(`the write of source ${source.name} told nothing of one of its rows`)
        if (result.outcome === 'locked') {
          locked.push(one.row.key)
          continue
        }
        settled.push(close(one, result))
        if (result.outcome === 'written' && result.before && result.after)
          written.push({
            run: one.row.run,
            key: one.row.key,
            lookup: one.row.lookup,
            before: result.before,
            after: result.after,
            writtenBefore: claimsIn(one.row.written, result.after),
          })
      }
      await changes.insert(tx, source.name, written)
      await rows.settle(tx, source.name, settled)
      await leftRows.leave(tx, source.name, locked, LOCKED)
      await rows.clearWritten(
        tx,
        claimed.map((row) => row.lookup),
      )
      return {
        rows: settled.length,
        enriched: written.length,
        cells: settled.reduce((sum, row) => sum + row.cells.written, 0),
        left: locked.length,
        tookMs,
      }
    },
    deps.rules.sourceTimeoutMs,
  )
}

/** The reason of a row that is left for later. */
const LOCKED = 'another transaction has locked its row: written when that has ended'

async function write(
  tx: Parameters<typeof onUsersTable>[0],
  source: Source,
  fitted: readonly Fitted[],
  sourceTimeoutMs: number,
): Promise<ReadonlyMap<string, WriteResult>> {
  if (fitted.length === 0) return new Map()
  const batch = fitted.map((one) => one.write)
  const results = await onUsersTable(tx, timeLimitOf(batch.length, sourceTimeoutMs), () =>
    writeBatch(tx, source, batch),
  )
  return new Map(results.map((result) => [result.key, result]))
}

/** Leaves rows for later whose batch was given up. */
async function leave(
  { db, rules }: Pick<Deps, 'db' | 'rules'>,
  source: Source,
  left: readonly rows.AnsweredRow[],
  busy: TableBusy,
): Promise<WriteBackResult> {
  const keys = left.map((row) => row.key)
  const reason = busyInWords(busy, rules.sourceTimeoutMs)
  await inTransaction(db, (tx) => leftRows.leave(tx, source.name, keys, reason))
  return { ...NONE, left: keys.length }
}

/** Closes the one row that can't be written, unless it has changed since it was tried. */
async function reject(
  deps: Pick<Deps, 'db' | 'rules'>,
  source: Source,
  one: Fitted,
  busy: TableBusy,
): Promise<WriteBackResult> {
  const reason = busyInWords(busy, deps.rules.sourceTimeoutMs)
  const rejected = {
    outcome: 'rejected',
    reason,
    before: null,
    after: null,
    kept: 0,
    keptColumns: [],
  } as const
  const settled = close(one, { ...rejected, key: one.row.key, skipped: [] })
  const isClosed = await inTransaction(deps.db, async (tx) => {
    if (!(await leftRows.holdAnswered(tx, source.name, one.row))) return false
    await rows.settle(tx, source.name, [settled])
    await rows.clearWritten(tx, [one.row.lookup])
    return true
  })
  return { ...NONE, rows: isClosed ? 1 : 0, more: true }
}

/** What Fillrate had written before into the columns that it has written now; null for nothing. */
function claimsIn(
  written: Record<string, unknown> | null,
  after: Record<string, unknown>,
): Record<string, unknown> | null {
  const claims = Object.entries(written ?? {}).filter(([column]) => Object.hasOwn(after, column))
  return claims.length > 0 ? Object.fromEntries(claims) : null
}
