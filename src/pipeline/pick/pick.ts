import { createHash } from 'node:crypto'
import { Row } from '../../domain/row.ts'
import type { Source } from '../../sources/source.ts'
import * as passes from '../../store/passes.ts'
import * as rows from '../../store/rows.ts'
import * as runs from '../../store/runs.ts'
import { inTransaction } from '../../store/transaction.ts'
import type { Deps } from '../deps.ts'
import type { Budget } from './budget.ts'
import { readKeys, readPage } from './candidates.ts'
import { takeCandidates } from './take.ts'

/** Rows read, and at the most taken, in one tick. */
const PAGE = 1_000

/** A change committed late carries a time before our last look: so much is read again. */
const LATE_COMMIT_MS = 10 * 60_000

export interface PickOptions {
  /** Rows at the most. */
  readonly limit: number | null
  /** SQL, on top of the source's own. */
  readonly where: string | null
}

/** One pass over one source: first what other runs left behind, then (with `changedAt`) what is due, then the table. */
export interface Pass {
  readonly source: Source
  phase: 'left_behind' | 'due' | 'table' | 'done'
  after: string | null
  picked: number
  scanned: number
  /** Rows that the budget would not pay: they must be found again, though they do not change. */
  leftOut: number
  changedSince: Date | null
  readonly startedAt: Date
}

/** Begins a pass. A partial one (`limit`, `where`) does not count as having read the table. */
export async function beginPass(
  deps: Pick<Deps, 'db' | 'now'>,
  source: Source,
  options: PickOptions,
): Promise<Pass> {
  const since =
    source.mapping.changedAt === null || options.where !== null
      ? null
      : await passes.changedUntil(deps.db, source.name, mappingHash(source))
  return {
    source,
    phase: 'left_behind',
    after: null,
    picked: 0,
    scanned: 0,
    leftOut: 0,
    changedSince: since === null ? null : new Date(since.getTime() - LATE_COMMIT_MS),
    startedAt: new Date(deps.now()),
  }
}

export interface PickResult {
  readonly picked: number
  readonly admitted: number
  readonly scanned: number
  readonly done: boolean
}

/**
 * Picks one page. The pass carries on where it was at the next tick; what it took is committed with it.
 */
export async function tick(
  deps: Pick<Deps, 'db' | 'rules' | 'log'>,
  run: { readonly id: number; readonly budget: Budget },
  pass: Pass,
  options: PickOptions,
): Promise<PickResult> {
  const live = (await runs.live(deps.db)).map((one) => one.id)
  const room = options.limit === null ? PAGE : Math.min(PAGE, options.limit - pass.picked)
  if (room <= 0) pass.phase = 'done'
  if (pass.phase === 'done') return { picked: 0, admitted: 0, scanned: 0, done: true }

  const outcome = await inTransaction(
    deps.db,
    async (tx) => {
      const { candidates, gone, next, scanned } = await read(tx, run.id, live, pass, options, room)
      if (gone.length > 0) await rows.settle(tx, pass.source.name, gone)
      if (candidates.length === 0) return { picked: 0, admitted: 0, leftOut: 0, next, scanned }
      // With a limit, a page may hold more candidates than there is room for; the page is then read again.
      const some = candidates.slice(0, room)
      const taken = await takeCandidates(tx, pass.source, { id: run.id, live, budget: run.budget }, some)
      const cut = some.length < candidates.length
      return { ...taken, next: cut ? (some.at(-1)?.key ?? null) : next, scanned }
    },
    deps.rules.sourceTimeoutMs,
  )
  run.budget.spend(outcome.admitted)
  run.budget.leaveOut(outcome.leftOut)
  pass.picked += outcome.picked
  pass.scanned += outcome.scanned
  pass.after = outcome.next
  pass.leftOut += outcome.leftOut
  if (outcome.next === null) await advance(deps, pass, options)
  return {
    picked: outcome.picked,
    admitted: outcome.admitted,
    scanned: outcome.scanned,
    done: (pass.phase as Pass['phase']) === 'done',
  }
}

async function read(
  tx: Parameters<Parameters<typeof inTransaction>[1]>[0],
  run: number,
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
  if (pass.phase === 'table') {
    const { where } = options
    const page = await readPage(tx, pass.source, {
      after: pass.after,
      size: PAGE,
      where,
      changedSince: pass.changedSince,
      live,
    })
    return { ...page, gone: [] }
  }
  const after = pass.after ?? ''
  const keys =
    pass.phase === 'left_behind'
      ? await rows.leftBehind(tx, pass.source.name, run, live, after, room)
      : await rows.due(tx, pass.source.name, after, room)
  const candidates = await readKeys(tx, pass.source, keys)
  const there = new Set(candidates.map((candidate) => candidate.key))
  return {
    candidates: pass.phase === 'due' ? candidates.filter((candidate) => candidate.lacks) : candidates,
    gone:
      pass.phase === 'left_behind' ? keys.filter((key) => !there.has(key)).map((key) => goneRow(key)) : [],
    next: keys.length === room ? (keys.at(-1) ?? null) : null,
    scanned: keys.length,
  }
}

async function advance(deps: Pick<Deps, 'db'>, pass: Pass, options: PickOptions): Promise<void> {
  pass.after = null
  if (pass.phase === 'left_behind') {
    pass.phase = pass.changedSince === null ? 'table' : 'due'
  } else if (pass.phase === 'due') {
    pass.phase = 'table'
  } else {
    pass.phase = 'done'
    const whole = options.where === null && options.limit === null && pass.leftOut === 0
    if (pass.source.mapping.changedAt !== null && whole)
      await passes.passed(deps.db, pass.source.name, mappingHash(pass.source), pass.startedAt)
  }
}

const goneRow = (key: string): rows.SettledRow => ({
  key,
  state: Row.unchanged,
  reason: 'the row is no longer in the source',
  written: null,
  notes: null,
  nextAt: null,
  cells: { written: 0, kept: 0, conflicts: 0 },
})

const mappingHash = (source: Source): string =>
  createHash('sha256').update(JSON.stringify(source.mapping)).digest('hex').slice(0, 16)
