import { randomUUID } from 'node:crypto'
import { routeEmails } from '../../domain/route.ts'
import * as toGiveBack from '../../store/give-back.ts'
import * as store from '../../store/leases.ts'
import { giveBackWithin } from '../../store/outage.ts'
import type { LiveRun } from '../../store/runs.ts'
import { LEASE_MS, type CallDeps } from '../deps.ts'
import { Hand } from './hand.ts'
import type { Leases } from './leases.ts'

type SupplyDeps = Pick<CallDeps, 'db' | 'rules' | 'webhookUrl'> & {
  readonly breaker: Pick<CallDeps['breaker'], 'state'>
}

/** Brings the lookups of one run to the calls: leases them some way ahead, and gives back what is not asked after all. */
export class Supply {
  readonly #deps: SupplyDeps
  readonly #run: LiveRun
  readonly #leases: Leases
  /** How many more may be asked in all. */
  readonly #room: () => number
  readonly #hand = new Hand(performance.now())
  #leasing: Promise<void> | null = null
  #failure: { readonly error: unknown } | null = null
  /** Nothing more waited when it was last looked at. */
  #isDry = false

  constructor(deps: SupplyDeps, run: LiveRun, leases: Leases, room: () => number) {
    this.#deps = deps
    this.#run = run
    this.#leases = leases
    this.#room = room
  }

  /** How many are there to be taken at once. */
  get size(): number {
    return this.#hand.size
  }

  /** Leased, but nobody knows yet that they are asked: they go to `answer` or `begin` before they are. */
  take(most: number): store.LeasedLookup[] {
    const taken = this.#hand.take(most)
    this.#leaseAhead()
    return taken
  }

  /** The next that are to be asked now, at most so many; none when nothing waits. */
  async begin(most: number): Promise<readonly store.LeasedLookup[]> {
    if (this.size === 0) await this.#leasing
    if (this.#failure !== null) throw this.#failure.error
    if (this.size === 0) {
      const ahead = Math.min(this.#hand.wanting(performance.now()), this.#room() - most)
      // Not what the hand holds by then: of that nobody knows that it is asked.
      return this.#hand.deal(await this.#lease(most + Math.max(0, ahead), most), most)
    }
    while (this.size > 0) {
      const coming = this.take(most)
      const begun = await store.begin(this.#deps.db, coming).catch(async (error: unknown) => {
        await this.giveBack(coming)
        throw error
      })
      this.leaveOut(coming, begun)
      if (begun.length > 0) return begun
    }
    return []
  }

  /** What is not among `begun` was lost to somebody else meanwhile, or erased. */
  leaveOut(lookups: readonly store.LeasedLookup[], begun: readonly store.LeasedLookup[]): void {
    const kept = new Set(begun)
    for (const lookup of lookups) if (!kept.has(lookup)) this.#leases.drop(lookup.token)
  }

  /** These were certainly not asked after all. */
  async giveBack(lookups: readonly store.LeasedLookup[]): Promise<void> {
    if (lookups.length === 0) return
    this.leaveOut(lookups, [])
    await giveBackWithin(LEASE_MS, () => toGiveBack.lookups(this.#deps.db, lookups))
  }

  /** Gives back what is left. Call it when nothing takes any more. */
  async end(): Promise<void> {
    await this.#leasing
    await this.giveBack(this.#hand.empty())
  }

  #leaseAhead(): void {
    const limit = Math.min(this.#hand.wanting(performance.now()), this.#room() - this.size)
    if (this.#leasing !== null || this.#isDry || limit <= 0) return
    this.#leasing = this.#lease(limit, 0)
      .then(
        (leased) => {
          this.#isDry = leased.length < limit
          this.#hand.put(leased)
        },
        (error: unknown) => {
          this.#failure = { error }
        },
      )
      .finally(() => {
        this.#leasing = null
      })
  }

  /** @param asking so many of them, from the first, are asked when they are leased */
  async #lease(limit: number, asking: number): Promise<store.LeasedLookup[]> {
    const { db } = this.#deps
    const token = randomUUID()
    const emails = this.#emails()
    const began = performance.now()
    const options = { run: this.#run.id, limit, asking, token, leaseMs: LEASE_MS, emails }
    const lease = async (): Promise<store.LeasedLookup[]> => {
      // An input that always fails would probe again and again, and keep the circuit open by itself.
      const untried =
        this.#deps.breaker.state === 'closed' ? [] : await store.lease(db, { ...options, untried: true })
      return untried.length > 0 ? untried : store.lease(db, options)
    }
    const leased = await lease().catch(async (error: unknown) => {
      // It may be committed and its answer lost: nothing was asked under it, so that it need not run out first.
      await giveBackWithin(LEASE_MS, () => toGiveBack.underToken(db, token))
      throw error
    })
    this.#leases.hold(token, leased.length, began)
    return leased
  }

  /** What never goes in bulk is leased always; emails, where they are to go singly. */
  #emails(): boolean | number {
    const { bulkFrom, singly } = routeEmails({
      option: this.#run.options.route,
      bulkPossible: this.#deps.webhookUrl !== null,
      picking: this.#run.picking,
      minimum: this.#deps.rules.bulkMinimum,
    })
    return singly === 'when_fewer' ? (bulkFrom ?? true) : singly === 'now'
  }
}
