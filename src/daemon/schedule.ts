import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { ScheduleEntry } from '../config/config.ts'
import { fateOfTick } from '../domain/tick.ts'
import type { RunStatus } from '../pipeline/run/report.ts'
import type { Database } from '../store/open.ts'
import { afterAbort, throughOutage } from '../store/outage.ts'
import * as ticks from '../store/ticks.ts'
import { latestTick, scheduleName, ticksAfter } from './times.ts'

export interface ScheduleDeps {
  readonly db: Database
  readonly log: Logger
  /** Names this process; unique for each start. */
  readonly owner: string
  /**
   * The time, in milliseconds since the epoch, by the clock that all processes share: Postgres's. A process's own may be
   * wrong, and what it recorded too early would stand for all ticks until then.
   */
  readonly clock: () => Promise<number>
  /** How long a tick is this process's without being extended. */
  readonly leaseMs: number
  /** Carries out one tick. Aborted: it ends as `interrupted`, with its state saved. */
  readonly run: (
    entry: ScheduleEntry,
    options: RunTick,
  ) => Promise<{ readonly status: RunStatus; readonly reason: string | null }>
}

export interface RunTick {
  readonly signal: AbortSignal
  /** Names the budget of this tick: however often it is begun again, it is spent once. */
  readonly budgetName: string
  readonly onStarted: (run: number) => void
}

/**
 * The schedule of one process. Ticks are rows: the process that inserts one first has recorded it for all, and one that
 * holds its lease runs it. So a tick is run once however many processes there are, and by another one when its
 * process dies.
 */
export class Schedule {
  readonly #deps: ScheduleDeps
  readonly #entries: ReadonlyMap<string, ScheduleEntry>
  readonly #running = new Set<Promise<void>>()
  readonly #stopping = new AbortController()
  /** What the shared clock said last, and when that was by a clock that nothing sets. */
  #said = { now: 0, at: 0 }

  constructor(deps: ScheduleDeps, entries: readonly ScheduleEntry[]) {
    this.#deps = deps
    this.#entries = new Map(entries.map((entry) => [scheduleName(entry), entry]))
  }

  /** Records what is due, and begins what can begin. */
  async tick(): Promise<void> {
    if (this.#entries.size === 0 || this.#stopping.signal.aborted) return
    await this.#record()
    while (await this.#beginOne());
  }

  /** Milliseconds until the next tick, as of the last one of this; infinite without a schedule. */
  untilNext(): number {
    const now = this.#said.now + performance.now() - this.#said.at
    const next = [...this.#entries.values()].flatMap((entry) => ticksAfter(entry, now, 1))
    return Math.min(...next.map((at) => at - now))
  }

  /** Interrupts what is running; another process, or this one after its restart, finishes it. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await Promise.all(this.#running)
  }

  async #record(): Promise<void> {
    const { db, log, clock } = this.#deps
    const now = await clock()
    this.#said = { now, at: performance.now() }
    const schedules = [...this.#entries.keys()]
    const dropped = await ticks.dropFuture(db, schedules)
    for (const { schedule, at } of dropped)
      log.warn({ schedule, at }, 'a tick in the future is deleted: a clock was wrong when it was recorded')
    const recorded = await ticks.latest(db, schedules, now)
    const due: ticks.DueTick[] = []
    for (const [schedule, entry] of this.#entries) {
      const at = latestTick(entry, now)
      const before = recorded.get(schedule)
      if (at === null || (before !== undefined && before.getTime() >= at)) continue
      const known = before !== undefined || dropped.some((tick) => tick.schedule === schedule)
      const fate = fateOfTick(at, now, { known, catchUp: entry.catchUp })
      due.push({ schedule, at: new Date(at), sources: entry.sources, ...fate })
    }
    for (const { schedule, at, skipped } of await ticks.record(db, due)) {
      const { state, reason } = due.find((one) => one.schedule === schedule) ?? {
        state: 'skipped',
        reason: null,
      }
      if (skipped) log.warn({ schedule, at }, 'a tick is skipped: the next one came before it could begin')
      else if (state === 'skipped') log.info({ schedule, at, reason }, 'a tick is skipped')
      else if (reason !== null) log.info({ schedule, at, reason }, 'a tick was missed, and is run now')
    }
  }

  async #beginOne(): Promise<boolean> {
    const { db, log, owner, leaseMs } = this.#deps
    const { begun, blocked } = await ticks.begin(db, {
      schedules: [...this.#entries.keys()],
      owner,
      token: randomUUID(),
      leaseMs,
    })
    for (const { schedule, at, by } of blocked)
      log.info({ schedule, at, by }, 'a tick waits: another run of its sources is not done yet')
    const entry = begun === null ? undefined : this.#entries.get(begun.schedule)
    if (begun === null || entry === undefined) return false
    const task = this.#carryOut(begun, entry).finally(() => this.#running.delete(task))
    this.#running.add(task)
    return true
  }

  async #carryOut(tick: ticks.BegunTick, entry: ScheduleEntry): Promise<void> {
    const { db, log, leaseMs } = this.#deps
    const { schedule, at, attempts } = tick
    log.info({ schedule, at, attempts }, 'a tick begins')
    const lost = new AbortController()
    const timer = setInterval(() => {
      ticks.extend(db, tick, leaseMs).then(
        (ours) => ours || lost.abort(),
        (error: unknown) =>
          log.warn({ schedule, reason: (error as Error).message }, 'a tick was not extended'),
      )
    }, leaseMs / 3)
    const signal = AbortSignal.any([this.#stopping.signal, lost.signal])
    // A shutdown waits no longer than the lease lasts: another process then ends the tick.
    const giveUp = afterAbort(this.#stopping.signal, leaseMs)
    const keep = (act: () => Promise<void>): Promise<void> => throughOutage(act, { giveUp })
    try {
      const { status, reason } = await this.#deps.run(entry, {
        signal,
        budgetName: `schedule ${schedule} ${at.toISOString()}`,
        onStarted: (run) => void ticks.startedRun(db, tick, run).catch(() => {}),
      })
      if (status === 'interrupted' && signal.aborted) await keep(() => ticks.release(db, tick))
      else
        await keep(() => ticks.end(db, tick, status === 'completed' ? reason : `${status}: ${reason ?? ''}`))
    } catch (error) {
      const reason = (error as Error).message
      log.error({ schedule, at, reason }, 'the run of a tick failed')
      await keep(() => ticks.end(db, tick, `failed: ${reason}`)).catch(() => {})
    } finally {
      clearInterval(timer)
    }
  }
}
