import { afterCall, type CallEvent } from '../../../src/domain/lookup.ts'
import * as leases from '../../../src/store/lookup-leases.ts'
import type { TestDatabase } from '../../support/clone.ts'
import type { ModelState } from './model-state.ts'
import { foundEvent, lookupKey, RULES, parseWorld, type Service } from './model-state.ts'

/** A lookup leased by the leader of this service. */
export type Leased = leases.LeasedLookup & { readonly service: Service }
type PendingCall = Leased & { readonly email: string; readonly key: string }
type Which = 'oldest' | 'newest' | 'all'

const emailOf = ({ input }: Pick<Leased, 'input'>): string => input['email'] ?? ''
const keyOf = (lookup: Pick<Leased, 'input' | 'service'>): string =>
  lookupKey(emailOf(lookup), lookup.service)

/** The calls on the wire, by world, whether or not their lease still holds. */
export class Calls {
  /** Violations found during the sequence. */
  readonly violations: string[] = []
  readonly #database: TestDatabase
  readonly #model: ModelState
  readonly #pending = new Map<number, PendingCall[]>()
  /** Leased and not yet called. */
  readonly #ready = new Map<number, Leased[]>()
  /** Answers of paused processes. */
  readonly #unstored = new Map<number, { readonly result: leases.LookupResult; readonly key: string }[]>()
  /** By lookup: the token of its current lease, where that is certain. */
  readonly #tokens = new Map<string, string>()

  constructor(database: TestDatabase, model: ModelState) {
    this.#database = database
    this.#model = model
  }

  start(leased: readonly Leased[]): void {
    this.#hold(leased)
    this.#call(leased)
  }

  keepReady(leased: readonly Leased[]): void {
    this.#hold(leased)
    for (const lookup of leased) {
      const world = parseWorld(emailOf(lookup))
      this.#ready.set(world, [...(this.#ready.get(world) ?? []), lookup])
    }
  }

  callReady(worlds: readonly number[]): void {
    this.#call(this.#takeReady(worlds))
  }

  /** Those of which the lease is lost meanwhile stay as they are. */
  async releaseReady(worlds: readonly number[]): Promise<void> {
    const ready = this.#takeReady(worlds)
    await leases.releaseLookups(this.#database.db, ready)
    for (const lookup of ready)
      if (this.#tokens.get(keyOf(lookup)) === lookup.token) this.#tokens.delete(keyOf(lookup))
  }

  /** A lease begins here and not with its call, which may come after it was lost to another process. */
  #hold(leased: readonly Leased[]): void {
    for (const lookup of leased) {
      this.#model.request(keyOf(lookup))
      this.#tokens.set(keyOf(lookup), lookup.token)
    }
  }

  #call(leased: readonly Leased[]): void {
    for (const lookup of leased) {
      const [email, key] = [emailOf(lookup), keyOf(lookup)]
      const world = parseWorld(email)
      this.#pending.set(world, [...(this.#pending.get(world) ?? []), { ...lookup, email, key }])
      this.#model.bill(key)
    }
  }

  #takeReady(worlds: readonly number[]): Leased[] {
    const taken = worlds.flatMap((world) => this.#ready.get(world) ?? [])
    for (const world of worlds) this.#ready.delete(world)
    return taken
  }

  /** The processes of these worlds die, with calls on the wire and lookups that are ready. */
  crash(worlds: readonly number[]): void {
    for (const world of worlds) {
      this.#pending.delete(world)
      this.#ready.delete(world)
    }
  }

  /** Records that the leases of these lookups may have ended. */
  markUncertain(keys: Iterable<string>): void {
    for (const key of keys) this.#tokens.delete(key)
  }

  /** Expires all leases of these worlds. What is ready has become too old to be called. */
  async expire(worlds: readonly number[]): Promise<void> {
    await this.releaseReady(worlds)
    const these = new Set(worlds)
    this.markUncertain([...this.#tokens.keys()].filter((key) => these.has(parseWorld(key))))
    await this.#database.pool.query(
      `update fillrate.lookups set leased_until = now() - interval '1 s'
        where is_leased and substring(key from '^w(\\d+)-')::int = any ($1::int[])`,
      [worlds],
    )
  }

  /** Answers calls of these worlds, in one write. */
  async answer(
    worlds: readonly number[],
    which: Which,
    event: (email: string, service: Service) => CallEvent,
  ): Promise<readonly leases.LookupResult[]> {
    const calls = worlds.flatMap((world) => this.#take(world, which))
    const results = calls.map((call) => this.#answer(call, event(call.email, call.service)))
    for (const batch of splitByLookup(results)) await leases.completeLookups(this.#database.db, batch)
    const stale = new Set(calls.filter((call, n) => results[n]?.state !== 'found' && this.#isStale(call)))
    for (const call of calls) if (!stale.has(call)) this.#tokens.delete(call.key)
    await this.#checkLeases([...stale])
    return results
  }

  /** The processes of these worlds pause, each with answers not yet stored. */
  pause(worlds: readonly number[]): void {
    for (const world of worlds) {
      const results = this.#take(world, 'all').map((call) => ({ result: this.#found(call), key: call.key }))
      this.#unstored.set(world, [...(this.#unstored.get(world) ?? []), ...results])
    }
  }

  /** They resume, and store their answers. */
  async resume(worlds: readonly number[]): Promise<void> {
    const unstored = worlds.flatMap((world) => this.#unstored.get(world) ?? [])
    for (const world of worlds) this.#unstored.delete(world)
    for (const { key } of unstored) {
      this.#model.return(key)
      this.#tokens.delete(key)
    }
    for (const batch of splitByLookup(unstored.map(({ result }) => result)))
      await leases.completeLookups(this.#database.db, batch)
  }

  #take(world: number, which: Which): PendingCall[] {
    const pending = this.#pending.get(world) ?? []
    const token = which === 'all' ? null : pending.at(which === 'oldest' ? 0 : -1)?.token
    const isTaken = (call: PendingCall): boolean => token === null || call.token === token
    this.#pending.set(
      world,
      pending.filter((call) => !isTaken(call)),
    )
    return pending.filter(isTaken)
  }

  #found = (call: PendingCall): leases.LookupResult => ({
    id: call.id,
    token: call.token,
    requestedAt: new Date(),
    ...afterCall(call, foundEvent(call.email, call.service), RULES, Date.now(), 0),
  })

  #answer(call: PendingCall, event: CallEvent): leases.LookupResult {
    if (event.type === 'found') this.#model.return(call.key)
    if (event.type === 'transient_error') this.#model.bill(call.key, -1)
    const { id, token } = call
    return {
      id,
      token,
      requestedAt: new Date(),
      ...afterCall(call, event, RULES, Date.now(), 0),
      notBefore: null,
    }
  }

  #isStale({ key, token }: PendingCall): boolean {
    const current = this.#tokens.get(key)
    return current !== undefined && current !== token
  }

  /** A write under a lost lease must change nothing: the successor still holds its lease. */
  async #checkLeases(stale: readonly PendingCall[]): Promise<void> {
    if (stale.length === 0) return
    const rows = await this.#database.query<{ id: number; token: string | null }>(
      `select id, lease_token::text as token from fillrate.lookups where id = any ($1::bigint[])`,
      [stale.map((call) => call.id)],
    )
    const byId = new Map(rows.map(({ id, token }) => [Number(id), token]))
    for (const { id, key } of stale)
      if (byId.has(id) && byId.get(id) !== this.#tokens.get(key))
        this.violations.push(`the lease of ${key} was taken by a process that had lost it`)
  }
}

/** Splits results so that no batch holds two of one lookup, as in the product. */
function splitByLookup(results: readonly leases.LookupResult[]): leases.LookupResult[][] {
  const batches: Map<number, leases.LookupResult>[] = []
  for (const result of results) {
    const batch = batches.find((one) => !one.has(result.id))
    if (batch) batch.set(result.id, result)
    else batches.push(new Map([[result.id, result]]))
  }
  return batches.map((batch) => [...batch.values()])
}
