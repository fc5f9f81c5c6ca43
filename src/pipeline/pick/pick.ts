import { createHash } from 'node:crypto'
import { Row } from '../../domain/row.ts'
import { explainPageFailure, pageTooSlow } from '../../sources/page-failure.ts'
import { isRefusal } from '../../sources/refused.ts'
import type { Source } from '../../sources/source.ts'
import { onUsersTable, TableBusy } from '../../store/conflict.ts'
import * as passes from '../../store/passes.ts'
import * as rows from '../../store/rows.ts'
import * as runs from '../../store/runs.ts'
import { inTransaction, type StoreTransaction } from '../../store/transaction.ts'
import type { Deps } from '../deps.ts'
import { Pace } from '../pace.ts'
import type { Budget } from './budget.ts'
import { readKeys, readPage } from './candidates.ts'
import { takeCandidates } from './take.ts'

/** Rows read, and at the most taken, in one tick. */
const PAGE = 1_000

export interface PickOptions {
  /** Rows of the source that a run takes at the most, those among them that dead runs have left behind. */
  readonly limit: number | null
  /** SQL, on top of the source's own. */
  readonly where: string | null
}

/** The run that picks. */
export interface PickingRun {
  readonly id: number
  readonly budget: Budget
  /** It only wants to see what would be written. */
  readonly dry: boolean
  /** The service that it asks. */
  readonly service: number
}

/**
 * One pass over one source: first what other runs left behind, then (with `changedAt`) what is due, then the table.
 * `sent_back` is a look at the run's own rows that are to be picked again; it comes before, and counts no row anew.
 */
export interface Pass {
  readonly source: Source
  phase: 'requeued' | 'abandoned' | 'due' | 'scan' | 'done'
  /** Rows of a page: fewer where reading them takes too long. */
  readonly pages: Pace
  after: string | null
  scanned: number
  /** Rows that the budget would not pay: they must be found again, though they do not change. */
  leftOut: number
  leftOutOfPhase: number
  /** Only what has changed since then is read; null: the whole table is. */
  readonly changedSince: Date | null
  /** With `changedAt`, and without a condition of the run's own. */
  readonly cursorPass: passes.CursorPass | null
}

/** Begins a pass. A partial one (`limit`, `where`) does not count as having read the table. */
export async function beginPass(
  deps: Pick<Deps, 'db' | 'service'>,
  source: Source,
  options: PickOptions,
): Promise<Pass> {
  const pass = newPass(source, 'abandoned')
  if (source.mapping.changedAt === null || options.where !== null) return pass
  const cursorPass = await passes.begin(deps.db, source.name, mappingHash(source, deps.service))
  return { ...pass, cursorPass, changedSince: cursorPass.since }
}

const newPass = (source: Source, phase: Pass['phase']): Pass => ({
  source,
  phase,
  pages: new Pace(PAGE),
  after: null,
  scanned: 0,
  leftOut: 0,
  leftOutOfPhase: 0,
  changedSince: null,
  cursorPass: null,
})

export interface PickResult {
  readonly picked: number
  /** The run's own rows that were picked again. */
  readonly again: number
  readonly admitted: number
  readonly scanned: number
  readonly done: boolean
}

const NOTHING = { picked: 0, again: 0, admitted: 0, scanned: 0 } as const

/**
 * Picks one page. The pass carries on where it was at the next tick; what it took is committed with it. A page that
 * takes too long is read again in smaller ones.
 * @throws TableBusy when another transaction has locked the table
 */
export async function tick(
  deps: Pick<Deps, 'db' | 'rules' | 'log'>,
  run: PickingRun,
  pass: Pass,
  options: PickOptions,
): Promise<PickResult> {
  const live = (await runs.live(deps.db)).map((one) => one.id)
  const room = await roomFor(deps, run, pass, options.limit)
  if (room <= 0) pass.phase = 'done'
  if (pass.phase === 'done') return { ...NOTHING, done: true }

  const { sourceTimeoutMs } = deps.rules
  const size = pass.pages.rows
  const outcome = await inTransaction(
    deps.db,
    async (tx) => {
      const { candidates, gone, next, scanned } = await onUsersTable(tx, sourceTimeoutMs, () =>
        read(tx, run, live, pass, options, Math.min(room, size)),
      )
      if (gone.length > 0) await rows.settle(tx, pass.source.name, gone)
      if (candidates.length === 0) return { picked: 0, admitted: 0, leftOut: [], next, scanned }
      // With a limit, a page may hold more candidates than there is room for; the page is then read again.
      const some = candidates.slice(0, room)
      const taken = await takeCandidates(tx, pass.source, { ...run, live }, some)
      const cut = some.length < candidates.length
      return { ...taken, next: cut ? (some.at(-1)?.key ?? null) : next, scanned }
    },
    sourceTimeoutMs,
  ).catch(async (error: unknown) => {
    run.budget.setRowsTaken(pass.source.name, null)
    if (error instanceof TableBusy && error.why === 'slow') {
      if (size === 1) throw pageTooSlow(pass.source, sourceTimeoutMs, error)
      pass.pages.cut(size)
      return null
    }
    if (!isRefusal(error)) throw error
    const { after, changedSince } = pass
    const page =
      pass.phase === 'scan'
        ? { after, limit: size, where: options.where, changedSince }
        : { keys: await inTransaction(deps.db, (tx) => keysOf(tx, run, live, pass, Math.min(room, size))) }
    throw (await explainPageFailure(deps.db, pass.source, page, error)) ?? error
  })
  if (outcome === null) return { ...NOTHING, done: false }
  pass.pages.took(size, 0)
  const { admitted, scanned, leftOut } = outcome
  const isAgain = pass.phase === 'requeued'
  const picked = isAgain ? 0 : outcome.picked
  // What other runs left behind was counted in its own phase.
  if (pass.phase === 'scan') run.budget.leaveOut(leftOut.filter((one) => one.fate === 'eligible').length)
  if (pass.phase === 'due') run.budget.leaveOut(leftOut.length)
  const before = run.budget.rowsTaken(pass.source.name)
  if (before !== null) run.budget.setRowsTaken(pass.source.name, before + picked)
  pass.scanned += scanned
  pass.after = outcome.next
  pass.leftOut += leftOut.length
  pass.leftOutOfPhase += leftOut.length
  if (outcome.next === null) await advance(deps, run, pass, options)
  return {
    picked,
    again: isAgain ? outcome.picked : 0,
    admitted,
    scanned,
    done: (pass.phase as Pass['phase']) === 'done',
  }
}

/** How many rows a page may take. A row that was sent back was counted when it was picked first. */
async function roomFor(
  { db }: Pick<Deps, 'db'>,
  run: PickingRun,
  { phase, source: { name } }: Pass,
  limit: number | null,
): Promise<number> {
  if (limit === null || phase === 'requeued') return PAGE
  const taken = run.budget.rowsTaken(name) ?? (await rows.countOfRun(db, name, run.id))
  run.budget.setRowsTaken(name, taken)
  return Math.min(PAGE, limit - taken)
}

/**
 * Picks again the run's own rows that were sent back, and on request also what runs that are no more have left behind
 * since, as many as the run's limit has room for.
 */
export async function pickAgain(
  deps: Pick<Deps, 'db' | 'rules' | 'log' | 'now'>,
  run: PickingRun,
  source: Source,
  options: {
    readonly leftBehind: boolean
    readonly limit?: number | null
    readonly signal: AbortSignal
  },
): Promise<Omit<PickResult, 'done'>> {
  const pass = newPass(source, 'requeued')
  const sum = { ...NOTHING }
  while (pass.phase === 'requeued' || (options.leftBehind && pass.phase === 'abandoned')) {
    if (options.signal.aborted) break
    const did = await tick(deps, run, pass, { limit: options.limit ?? null, where: null })
    for (const count of ['picked', 'again', 'admitted', 'scanned'] as const) sum[count] += did[count]
  }
  return sum
}

async function read(
  tx: StoreTransaction,
  run: PickingRun,
  live: readonly number[],
  pass: Pass,
  options: PickOptions,
  room: number,
): Promise<{
  candidates: Awaited<ReturnType<typeof readKeys>>
  gone: rows.SettledRow[]
  next: string | null
  scanned: number
}> {
  if (pass.phase === 'scan') {
    const { where } = options
    const page = await readPage(tx, pass.source, {
      after: pass.after,
      size: pass.pages.rows,
      where,
      changedSince: pass.changedSince,
      live,
      dry: run.dry,
      service: run.service,
    })
    return { ...page, gone: [] }
  }
  const keys = await keysOf(tx, run, live, pass, room)
  const candidates = await readKeys(tx, pass.source, keys, run.service)
  const there = new Set(candidates.map((candidate) => candidate.key))
  const waits = pass.phase !== 'due'
  return {
    candidates: waits ? candidates : candidates.filter((candidate) => candidate.lacks),
    gone: waits ? keys.filter((key) => !there.has(key)).map((key) => goneRow(key)) : [],
    next: keys.length === room ? (keys.at(-1) ?? null) : null,
    scanned: keys.length,
  }
}

function keysOf(
  tx: StoreTransaction,
  run: PickingRun,
  live: readonly number[],
  pass: Pass,
  room: number,
): Promise<string[]> {
  const { source, after } = pass
  switch (pass.phase) {
    case 'requeued':
      return rows.sentBack(tx, source.name, run.id, after ?? '', room)
    case 'abandoned':
      return rows.leftBehind(tx, source.name, live, after ?? '', room, run.dry)
    default:
      return rows.due(tx, source.name, after ?? '', room)
  }
}

async function advance(
  deps: Pick<Deps, 'db'>,
  { budget, dry, service }: PickingRun,
  pass: Pass,
  options: PickOptions,
): Promise<void> {
  const leftOut = pass.leftOutOfPhase
  pass.after = null
  pass.leftOutOfPhase = 0
  if (pass.phase === 'requeued') {
    budget.leaveWaiting(pass.source.name, leftOut)
    pass.phase = 'abandoned'
  } else if (pass.phase === 'abandoned') {
    budget.leaveBehind(pass.source.name, leftOut)
    pass.phase = pass.changedSince === null ? 'scan' : 'due'
  } else if (pass.phase === 'due') {
    pass.phase = 'scan'
  } else {
    pass.phase = 'done'
    const whole = options.limit === null && pass.leftOut === 0 && !dry
    if (pass.cursorPass !== null && whole)
      await passes.passed(deps.db, pass.source.name, mappingHash(pass.source, service), pass.cursorPass)
  }
}

/** A row that waited and is no longer in its source: nothing is left to do. */
export const goneRow = (key: string): rows.SettledRow => ({
  key,
  state: Row.unchanged,
  reason: 'the row is no longer in the source',
  written: null,
  notes: null,
  nextAt: null,
  cells: { written: 0, protected: 0, skipped: 0 },
})

/** How far a source was read for one service says nothing of what another would answer. */
const mappingHash = (source: Source, service: number): string =>
  createHash('sha256')
    .update(JSON.stringify(source.mapping) + (service === 0 ? '' : ` ${service}`))
    .digest('hex')
    .slice(0, 16)
