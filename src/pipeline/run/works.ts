import { setTimeout as sleep } from 'node:timers/promises'
import type { ServiceError } from '../../service/errors.ts'
import type { RateState } from '../../service/limiter.ts'
import type { Source } from '../../sources/source.ts'
import { throughOutage } from '../../store/outage.ts'
import * as runs from '../../store/runs.ts'
import { LEASE_MS, type CallDeps } from '../deps.ts'
import * as recover from '../recover.ts'
import * as settle from '../settle/settle.ts'
import * as writeBack from '../write-back/write-back.ts'
import { callWhenever } from './calling.ts'
import { loop } from './loop.ts'
import { Nudge } from './nudge.ts'
import type { Tally } from './tally.ts'
import type { HearRate, TakeTurn, Turn } from './turn.ts'

/** What a run gives to the works that it joins. */
export interface Member {
  readonly run: number
  readonly sources: readonly string[]
  readonly tally: Tally
  /** The service refuses us for good. */
  readonly onStop: (error: ServiceError) => void
  /** Something failed that the run can't go on without. */
  readonly onFailure: (error: unknown) => void
}

interface Calling {
  readonly deps: Omit<CallDeps, 'limiter'>
  readonly takeTurn: TakeTurn
  readonly hearRate: HearRate
  /** The service and the key in use by now. */
  readonly scope: () => string
}

export interface WorksOptions {
  /** The sources to write back. */
  readonly sources: readonly Source[]
  /** Null: calls nothing. */
  readonly calls: Calling | null
  /** Ends all of it when what is under way is done. */
  readonly signal: AbortSignal
  /** Waited for before deliveries are settled: what is stored can wait, those that send more can't. */
  readonly beforeSettling?: () => Promise<void>
  readonly onRecovered?: (did: recover.RecoverResult) => void
}

export interface Step {
  readonly name: string
  /** The one source that it works for. Null: all. */
  readonly source: string | null
  readonly begin: () => Promise<void>
}

type WorksDeps = Pick<CallDeps, 'db' | 'sources' | 'log' | 'now' | 'random' | 'rules'>

/**
 * The steps that a process does for all its runs at once: look up, submit, settle, write back and recover, each in a
 * loop of its own. A run of its own has works of its own; in the daemon all runs share one.
 */
export class Works {
  readonly #deps: WorksDeps
  readonly #options: WorksOptions
  readonly #members = new Set<Member>()
  readonly #toLookUp = new Nudge()
  readonly #toSync = new Nudge()
  readonly #toSubmit = new Nudge()
  readonly #toSettle = new Nudge()
  readonly #toWrite: readonly { readonly source: Source; readonly nudge: Nudge }[]
  readonly #warnedOf = new Set<number>()
  #turn: Turn | null = null
  #rate: RateState | null = null
  /** What another process told that calls instead. */
  #heard: RateState | null = null

  constructor(deps: WorksDeps, options: WorksOptions) {
    this.#deps = deps
    this.#options = options
    this.#toWrite = options.sources.map((source) => ({ source, nudge: new Nudge() }))
  }

  /** What is done from now on is told to this run. @returns ends that */
  join(member: Member): () => void {
    this.#members.add(member)
    return () => this.#members.delete(member)
  }

  readonly wakeCalls = (): void => {
    this.#toSync.nudge()
    this.#toLookUp.nudge()
    this.#toSubmit.nudge()
  }

  readonly wakeWriters = (): void => {
    for (const { nudge } of this.#toWrite) nudge.nudge()
  }

  readonly wakeSettling = (): void => this.#toSettle.nudge()

  /** What is known of the rate: of its own turn, or else what another process has told of its turn. */
  rate(): RateState | null {
    return this.#turn?.limiter.state() ?? this.#rate ?? this.#heard
  }

  /** All loops, each to be begun and waited for by itself: one that fails does not end the others. */
  steps(): Step[] {
    const { calls, signal } = this.#options
    const deps = this.#deps
    const common = { signal, log: deps.log }
    return [
      ...(calls === null ? [] : [{ name: 'call', source: null, begin: () => this.#call(calls) }]),
      {
        name: 'settle',
        source: null,
        begin: () =>
          loop({
            ...common,
            name: 'settle',
            nudge: this.#toSettle,
            paceMs: 250,
            full: 20,
            tick: async () => {
              await this.#options.beforeSettling?.()
              const did = await settle.tick(deps)
              if (did.answered > 0) this.wakeWriters()
              if (did.deliveries > 0) {
                this.#each((tally) => tally.moved())
                this.#toLookUp.nudge()
              }
              return did.deliveries
            },
          }),
      },
      ...this.#toWrite.flatMap(({ source, nudge }) => [
        this.#writer(source, 'write back', { nudge, paceMs: 200 }),
        // Looks only now and then, and stays for as long as there is more than one can write.
        this.#writer(source, 'help to write back', { nudge: new Nudge(), paceMs: 1_000 }),
      ]),
      {
        name: 'recover',
        source: null,
        begin: () =>
          every(LEASE_MS / 5, signal, deps, 'recover', async () => {
            // Its own runs are not taken for dead, however long Postgres was away.
            const own = [...this.#members].map((member) => member.run)
            const did = await recover.tick(deps, own)
            this.#options.onRecovered?.(did)
            if (calls !== null) await this.#warnOfOthers(calls.scope())
          }),
      },
    ]
  }

  /** Two services on one database are most likely a mistake; their runs never serve each other. */
  async #warnOfOthers(scope: string): Promise<void> {
    for (const run of await runs.live(this.#deps.db)) {
      if (run.scope === null || run.scope === scope || this.#warnedOf.has(run.id)) continue
      this.#warnedOf.add(run.id)
      this.#deps.log.warn(
        { run: run.id, scope: run.scope, own: scope },
        'a run with another service or key is at work on this database: its rows and lookups are left to it',
      )
    }
  }

  #writer(source: Source, verb: string, pace: { readonly nudge: Nudge; readonly paceMs: number }): Step {
    const deps = this.#deps
    const name = `${verb} ${source.name}`
    return {
      name,
      source: source.name,
      begin: () =>
        loop({
          ...pace,
          name,
          log: deps.log,
          signal: this.#options.signal,
          tick: async () => {
            const did = await writeBack.tick(deps, source)
            this.#each((tally) => {
              tally.written += did.cells
              if (did.rows > 0) tally.moved()
            })
            return did.more ? Number.POSITIVE_INFINITY : did.rows
          },
        }),
    }
  }

  async #call({ deps, takeTurn, hearRate, scope }: Calling): Promise<void> {
    await this.#settleFirst()
    let before = scope()
    return callWhenever({
      deps,
      takeTurn: async () => {
        if (before !== scope()) {
          const own = [...this.#members].map((member) => member.run)
          // Their heartbeats would do it seconds later; until then nobody would serve them.
          await runs.changeScope(this.#deps.db, own, scope())
          before = scope()
        }
        const turn = await takeTurn()
        if (turn === null) this.#heard = (await hearRate()) ?? this.#heard
        return turn
      },
      tally: (act) => this.#each(act),
      toLookUp: this.#toLookUp,
      toSync: this.#toSync,
      toSubmit: this.#toSubmit,
      wakeWriters: this.wakeWriters,
      signal: this.#options.signal,
      onTurn: (turn) => {
        if (this.#turn) this.#rate = this.#turn.limiter.state()
        this.#turn = turn
      },
      onStop: (error) => {
        for (const member of this.#members) member.onStop(error)
      },
    })
  }

  /** What was delivered while nobody looked answers some of what would be asked now, and paid for again. */
  async #settleFirst(): Promise<void> {
    const { signal } = this.#options
    const { log } = this.#deps
    await throughOutage(
      async () => {
        while (!signal.aborted && (await settle.tick(this.#deps)).deliveries > 0) this.wakeWriters()
      },
      {
        signal,
        onWait: (error, ms) =>
          log.warn({ step: 'settle', reason: error.message, ms }, 'waiting for Postgres'),
      },
    ).catch((error: unknown) => {
      if (!signal.aborted) throw error
    })
  }

  /** A step has failed: the runs that can't go on without it are told. Null: all of them. */
  fail(error: unknown, source: string | null): void {
    for (const member of this.#members)
      if (source === null || member.sources.includes(source)) member.onFailure(error)
  }

  #each(act: (tally: Tally) => void): void {
    for (const { tally } of this.#members) act(tally)
  }
}

/** Something small, now and then, in a loop that outlasts an outage. */
export function every(
  ms: number,
  signal: AbortSignal,
  deps: Pick<WorksDeps, 'log'>,
  name: string,
  act: () => Promise<unknown>,
): Promise<void> {
  return loop({
    name,
    nudge: new Nudge(),
    signal,
    log: deps.log,
    tick: async () => {
      await act()
      await sleep(ms, undefined, { signal }).catch(() => {})
      return 1
    },
  })
}
