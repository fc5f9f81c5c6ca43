import { afterCall, type CallEvent } from '../../../src/domain/lookup.ts'
import * as leases from '../../../src/store/lookup-leases.ts'
import type { TestDatabase } from '../../support/clone.ts'
import type { Model } from './model.ts'
import { questionOf, record, RULES, worldOf, type Service } from './world.ts'

/** Leased by the process that calls this service. */
export type Leased = leases.LeasedLookup & { readonly service: Service }
type Held = Leased & { readonly key: string; readonly question: string }
type Which = 'oldest' | 'newest' | 'all'

/** The calls under way, by world: asked under a token, and not answered yet, whether or not the lease still holds. */
export class Calls {
  /** What was wrong on the way, in words. */
  readonly faults: string[] = []
  readonly #database: TestDatabase
  readonly #model: Model
  readonly #held = new Map<number, Held[]>()
  /** Leased, and not asked yet. */
  readonly #ahead = new Map<number, Leased[]>()
  readonly #late = new Map<number, { readonly answer: leases.LookupResult; readonly question: string }[]>()
  /** By question: the token under which it is asked now, as far as that is certain. */
  readonly #holders = new Map<string, string>()

  constructor(database: TestDatabase, model: Model) {
    this.#database = database
    this.#model = model
  }

  begin(leased: readonly Leased[]): void {
    for (const lookup of leased) {
      const key = lookup.input['email'] ?? ''
      const question = questionOf(key, lookup.service)
      const world = worldOf(key)
      this.#held.set(world, [...(this.#held.get(world) ?? []), { ...lookup, key, question }])
      this.#model.pay(question)
      this.#holders.set(question, lookup.token)
    }
  }

  ahead(leased: readonly Leased[]): void {
    for (const lookup of leased) {
      const world = worldOf(lookup.input['email'] ?? '')
      this.#ahead.set(world, [...(this.#ahead.get(world) ?? []), lookup])
    }
  }

  takeAhead(worlds: readonly number[]): Leased[] {
    const ahead = worlds.flatMap((world) => this.#ahead.get(world) ?? [])
    for (const world of worlds) this.#ahead.delete(world)
    return ahead
  }

  /** Their processes are gone, with whatever was on the wire, and whatever they had only leased. */
  crash(worlds: readonly number[]): void {
    for (const world of worlds) {
      this.#held.delete(world)
      this.#ahead.delete(world)
    }
  }

  /** It is not certain whether the leases of these still hold. */
  unsure(questions: Iterable<string>): void {
    for (const question of questions) this.#holders.delete(question)
  }

  /** Time passes: no lease of these worlds holds any more. */
  async expire(worlds: readonly number[]): Promise<void> {
    const these = new Set(worlds)
    this.unsure([...this.#holders.keys()].filter((question) => these.has(worldOf(question))))
    await this.#database.pool.query(
      `update fillrate.lookups set leased_until = now() - interval '1 s'
        where state = 'leased' and substring(key from '^w(\\d+)-')::int = any ($1::int[])`,
      [worlds],
    )
  }

  /** Answers calls under way in these worlds, in one write. */
  async answer(
    worlds: readonly number[],
    which: Which,
    event: (key: string, service: Service) => CallEvent,
  ): Promise<readonly leases.LookupResult[]> {
    const held = worlds.flatMap((world) => this.#take(world, which))
    const answers = held.map((lookup) => this.#answerTo(lookup, event(lookup.key, lookup.service)))
    for (const batch of onceEach(answers)) await leases.completeLookups(this.#database.db, batch)
    const stale = new Set(held.filter((lookup, n) => answers[n]?.state !== 'found' && this.#isStale(lookup)))
    for (const lookup of held) if (!stale.has(lookup)) this.#holders.delete(lookup.question)
    await this.#expectHeld([...stale])
    return answers
  }

  /** Their process is paused with a record in its hands. */
  hold(worlds: readonly number[]): void {
    for (const world of worlds) {
      const answers = this.#take(world, 'all').map((lookup) => ({
        answer: this.#found(lookup),
        question: lookup.question,
      }))
      this.#late.set(world, [...(this.#late.get(world) ?? []), ...answers])
    }
  }

  /** It wakes, and stores what it has. */
  async late(worlds: readonly number[]): Promise<void> {
    const late = worlds.flatMap((world) => this.#late.get(world) ?? [])
    for (const world of worlds) this.#late.delete(world)
    for (const { question } of late) {
      this.#model.given.add(question)
      this.#holders.delete(question)
    }
    for (const batch of onceEach(late.map(({ answer }) => answer)))
      await leases.completeLookups(this.#database.db, batch)
  }

  #take(world: number, which: Which): Held[] {
    const held = this.#held.get(world) ?? []
    const token = which === 'all' ? null : held.at(which === 'oldest' ? 0 : -1)?.token
    const isTaken = (lookup: Held): boolean => token === null || lookup.token === token
    this.#held.set(
      world,
      held.filter((lookup) => !isTaken(lookup)),
    )
    return held.filter(isTaken)
  }

  #found = (lookup: Held): leases.LookupResult => ({
    id: lookup.id,
    token: lookup.token,
    askedAt: new Date(),
    ...afterCall(
      lookup,
      { type: 'found', record: record(lookup.key, lookup.service), confidence: 0.9 },
      RULES,
      Date.now(),
      0,
    ),
  })

  #answerTo(lookup: Held, event: CallEvent): leases.LookupResult {
    if (event.type === 'found') this.#model.given.add(lookup.question)
    if (event.type === 'transient_error') this.#model.pay(lookup.question, -1)
    const { id, token } = lookup
    return {
      id,
      token,
      askedAt: new Date(),
      ...afterCall(lookup, event, RULES, Date.now(), 0),
      notBefore: null,
    }
  }

  #isStale({ question, token }: Held): boolean {
    const holder = this.#holders.get(question)
    return holder !== undefined && holder !== token
  }

  /** Whoever has lost a lease has changed nothing: its successor still holds its own. */
  async #expectHeld(stale: readonly Held[]): Promise<void> {
    if (stale.length === 0) return
    const { rows } = await this.#database.pool.query<{ id: number; token: string | null }>(
      `select id, lease_token::text as token from fillrate.lookups where id = any ($1::bigint[])`,
      [stale.map((lookup) => lookup.id)],
    )
    const byId = new Map(rows.map(({ id, token }) => [Number(id), token]))
    for (const { id, question } of stale)
      if (byId.has(id) && byId.get(id) !== this.#holders.get(question))
        this.faults.push(`the lease of ${question} was taken from its holder by somebody who had lost it`)
  }
}

/** One lookup's answers under two tokens never go together in the product, either. */
function onceEach(answers: readonly leases.LookupResult[]): leases.LookupResult[][] {
  const batches: Map<number, leases.LookupResult>[] = []
  for (const answer of answers) {
    const batch = batches.find((one) => !one.has(answer.id))
    if (batch) batch.set(answer.id, answer)
    else batches.push(new Map([[answer.id, answer]]))
  }
  return batches.map((batch) => [...batch.values()])
}
