import type {
  ExhaustedFor,
  LearntLimit,
  LearntUsage,
  OverstatedLimit,
  RateStatus,
  PreviousLeader,
} from '../../domain/rate-status.ts'
import type { AnswerHead } from '../../domain/service/head.ts'
import type { DocumentedLimit } from '../../domain/service/documented-limit.ts'
import type { CalledEndpoint } from '../../domain/spend.ts'
import type { Call } from './call-ledger.ts'
import { DocumentedLimits, type DocumentedOptions } from './documented-limits.ts'
import { type CallPosition, EndpointEvidence, type StatedUsage } from './endpoint-evidence.ts'
import { ExhaustionRecord, exhaustedForMs } from './exhaustion.ts'
import { readRateHeaders } from './headers.ts'
import { RateLimitModel } from './model.ts'

export interface ModelOptions {
  /** How long the previous leader may have exhausted limits. */
  readonly exhaustedFor?: ExhaustedFor
  readonly previous?: PreviousLeader | undefined
  /**
   * Persists how long limits may be exhausted, in place of what was persisted before. Without it, the next leader does not
   * learn that a limit is exhausted.
   */
  readonly persistExhaustion?: ((exhaustedFor: ExhaustedFor) => Promise<void>) | null
  /** Limits beside the limits of headers; the stricter one holds. Default: none. */
  readonly documented?: DocumentedOptions
  /** More may be granted now. */
  readonly onPersisted: () => void
  readonly now: () => number
}

/** A call in flight, as each limit counts it that it may be counted against. */
export interface CountedCall {
  readonly position: CallPosition
  readonly parts: { readonly model: RateLimitModel; readonly call: Call }[]
}

/** A limit as far as it is known, and what is persisted of it for the next leader. */
type CountedLimit = ExhaustionRecord<RateLimitModel>

type Endpoint = CalledEndpoint | null

/** This many calls are made one by one to find out whether endpoints share a limit: four decide, if no window ends between. */
const TRIAL_CALLS = 8

/** How often it is seen anew what of a limit is kept for urgent calls: it is released as the window passes. */
const RESERVE_POLL_MS = 50

/**
 * The limits of a key: those that headers state, one for all calls or one an endpoint, and those that the service
 * documents. While one endpoint alone was called the former two are the same. From the first call of a second one on both
 * are possible, and a call needs a permit of both, until `EndpointEvidence` shows which is true.
 */
export class EndpointModels {
  callsSent = 0
  /** 429s. */
  throttled = 0
  readonly documented: DocumentedLimits
  readonly #options: ModelOptions
  /** Counts all calls; null once endpoints are known to have limits of their own. */
  #account: CountedLimit | null
  /** Those of endpoints; none while one alone was called, or once one limit for all is known. */
  readonly #own = new Map<Endpoint, CountedLimit>()
  /** Counts all calls for a limit that the headers do not state, beside the one that they do; null: none has shown itself. */
  #beside: CountedLimit | null = null
  readonly #evidence = new EndpointEvidence()
  /** Endpoints that were called, the first one first. */
  readonly #called = new Set<Endpoint>()
  readonly #granted = new Map<Endpoint, number>()
  readonly #inFlight = new Set<CountedCall>()
  #persisting: Promise<void> = Promise.resolve()
  #trialCalls = 0

  constructor(options: ModelOptions) {
    this.#options = options
    const { exhaustedFor = {}, previous, documented = { limits: [] }, onPersisted } = options
    const { all, ...own } = exhaustedFor
    const now = options.now()
    this.documented = new DocumentedLimits(documented, now, onPersisted, () =>
      listLearnt(this.#owned, this.documented),
    )
    const until = (forMs: number | undefined): number => (forMs === undefined ? -Infinity : now + forMs)
    this.#account = this.#open(new RateLimitModel(until(all), previous), until(all))
    this.#prepare(null, this.#account.model)
    const inherited = previous?.learnt ?? null
    if (inherited?.isBeside) this.#beside = this.#open(this.#createAdopting('all', now))
    if (inherited !== null && (inherited.isBeside || documented.limits.length === 0))
      (this.#beside ?? this.#account).model.unstated.restore(inherited, [], now)
    const learnt = this.documented.isByEndpoint ? (documented.usage?.learnt ?? []) : []
    const known = [
      ...(Object.keys(own) as CalledEndpoint[]),
      ...learnt.flatMap(({ endpoint }) => endpoint ?? []),
    ]
    for (const endpoint of new Set(known)) {
      const forMs = own[endpoint]
      const model = new RateLimitModel(until(forMs))
      this.#prepare(endpoint, model)
      this.#called.add(endpoint)
      this.#own.set(endpoint, this.#open(model, until(forMs)))
    }
  }

  /** What refusals have shown of a limit that neither headers nor the description state; null: nothing. */
  get learnt(): NonNullable<RateStatus['learnt']> | null {
    const isBeside = this.#beside !== null
    if (!isBeside && this.documented.limits.length > 0) return null
    const learnt = (this.#beside ?? this.#account)?.model.learnt ?? null
    return learnt && { ...learnt, isBeside }
  }

  /** Endpoints have limits of their own. */
  get isByEndpoint(): boolean {
    return this.#account === null
  }

  /** The limit to report: that of all calls, or the least of the endpoints if these have limits of their own. */
  get reported(): RateLimitModel {
    const account = this.#account?.model
    if (account !== undefined && (account.limit !== null || !this.documented.isByEndpoint)) return account
    const limitOf = ({ limit, learnt }: RateLimitModel): number => limit ?? learnt?.calls ?? Infinity
    return this.#models.reduce((least, model) => (limitOf(model) < limitOf(least) ? model : least))
  }

  /** What the description states and the service does not grant; null: nothing. */
  get overstated(): OverstatedLimit | null {
    return findWorstOverstated(this.#owned, this.documented)
  }

  /** Calls are granted or in flight. */
  get hasPending(): boolean {
    return this.#models.some(({ calls }) => calls.hasPending)
  }

  /** How long the service refuses to serve the key, in milliseconds, 1 or more; 0: it serves it. */
  banMs(now: number): number {
    const banned = this.#models.filter(({ isBanned }) => isBanned)
    return Math.max(0, ...banned.map((model) => Math.max(1, model.cooldownMs(now))))
  }

  /** Why no call of an endpoint is granted now, in words; null if one is. */
  stallReason(endpoint: Endpoint, now: number): string | null {
    const account = this.#account?.model.stallReason(now) ?? null
    const own = this.#own.get(endpoint)?.model.stallReason(now) ?? null
    const ofBoth = account ?? this.#beside?.model.stallReason(now) ?? null
    return ofBoth ?? (own === null || endpoint === null ? own : `${endpoint}: ${own}`)
  }

  /** How long the next leader must wait with calls. */
  exhaustedFor(now: number): ExhaustedFor {
    return this.#exhaustedFor(({ model }) => exhaustedForMs(model, now))
  }

  #exhaustedFor(msOf: (limit: CountedLimit) => number | null): ExhaustedFor {
    const times: { -readonly [Key in keyof ExhaustedFor]: number } = {}
    for (const [endpoint, limit] of this.#stated()) {
      const key = endpoint ?? 'all'
      const forMs = msOf(limit) ?? 0
      if (forMs > 0) times[key] = Math.max(times[key] ?? 0, forMs)
    }
    return times
  }

  /** @param wanted what calls wait for */
  onDemand(wanted: ReadonlySet<Endpoint>, now: number): void {
    const isWanted = wanted.size > 0 || this.hasPending
    for (const limit of [this.#account, this.#beside]) limit?.model.onDemand(isWanted, now)
    for (const [endpoint, { model }] of this.#own)
      model.onDemand(wanted.has(endpoint) || model.calls.hasPending, now)
  }

  /**
   * How many of `count` permits may be granted now, beyond the granted ones. One alone to an endpoint that was never called:
   * its limit may be less than any that is known.
   * @param share of each limit, to keep for urgent calls; it is released as the window passes, so that none is wasted
   */
  grantable(endpoint: Endpoint, count: number, now: number, share = 0): number {
    const isCalled = this.#called.size === 0 || this.#called.has(endpoint)
    let granted = isCalled ? count : Math.min(count, 1 - (this.#granted.get(endpoint) ?? 0))
    for (const limit of this.#of(endpoint)) {
      if (granted < 1) return 0
      // No more than is wanted would be spent: only if that is most of what is left it has to be persisted.
      granted = limit.grantable(Math.min(granted, limit.model.grantable(now, share)), now)
    }
    if (this.#isTrial(now))
      granted = Math.min(granted, this.#account?.model.calls.hasPending === true ? 0 : 1)
    return this.documented.limit(Math.max(0, granted), endpoint, now, share)
  }

  /**
   * Answers to calls that were in flight together show little of which limit they are counted against, so once half of the
   * limit is used some calls are made one by one.
   */
  #isTrial(now: number): boolean {
    const model = this.#account?.model
    if (this.#own.size < 2 || this.#trialCalls >= TRIAL_CALLS || model?.limit == null) return false
    return (model.remaining(now) ?? 0) < model.limit / 2
  }

  /** When `grantable` may rise by the passing of time alone; null if only an answer can raise it. */
  nextCheckAt(endpoint: Endpoint, now: number, share = 0): number | null {
    if (this.documented.grantable(endpoint, now, share) < 1)
      return this.documented.nextAt(endpoint, now, share)
    const waiting = this.#of(endpoint).filter(({ model }) => model.grantable(now) < 1)
    const expiresAt = this.#isTrial(now) ? this.#account?.model.calls.grantsExpireAt : null
    const pollAt = waiting.length === 0 && share > 0 ? now + RESERVE_POLL_MS : null
    const times = [expiresAt, pollAt, ...waiting.map(({ model }) => model.nextCheckAt(now))].filter(
      (at) => at != null,
    )
    return times.length === 0 ? null : Math.max(...times)
  }

  grant(endpoint: Endpoint, count: number, now: number): void {
    this.#addGranted(endpoint, count)
    for (const { model } of this.#of(endpoint)) model.grant(count, now)
    this.documented.grant(endpoint, count)
  }

  /** Gives back grants that were not used. */
  release(endpoint: Endpoint, count: number): void {
    this.#addGranted(endpoint, -count)
    for (const { model } of this.#of(endpoint)) model.calls.release(count)
    this.documented.release(endpoint, count)
  }

  sent(endpoint: Endpoint, now: number): CountedCall {
    if (!this.#called.has(endpoint)) this.#onFirstCall(endpoint, now)
    else if (this.#isTrial(now) && this.#inFlight.size === 0) this.#trialCalls++
    this.callsSent++
    this.#addGranted(endpoint, -1)
    const parts = this.#of(endpoint).map(({ model }) => ({ model, call: model.sent(now) }))
    const counted = { position: this.#evidence.onSent(endpoint, now), parts }
    this.#inFlight.add(counted)
    return counted
  }

  /** No answer will come; the service may have counted the call. */
  lost(counted: CountedCall, now: number): void {
    for (const { model, call } of counted.parts) model.lost(call, now)
    this.#complete(counted, null, now)
  }

  answered(counted: CountedCall, answer: AnswerHead, now: number): void {
    if (answer.status === 429) this.throttled++
    let stated: StatedUsage | null = null
    const own = this.#own.get(counted.position.endpoint)?.model
    const ignoring = this.#findUnconcerned(own, answer, now)
    const isBeside = isOfUnstated(answer, now)
    if (isBeside) this.#beside ??= this.#open(this.#createAdopting('all', now))
    for (const { model, call } of counted.parts)
      if (model === this.#beside?.model) model.answered(call, withoutRate(answer), now)
      else if (isBeside) model.refusedForOther(call, answer, now)
      else if (model === ignoring) model.lost(call, now)
      else stated = model.answered(call, answer, now)
    this.#complete(counted, stated, now)
  }

  /**
   * The one of an endpoint's two models that an answer says nothing about; null: it may concern both.
   *
   * An endpoint that states less than the limit of all, and has never stated that limit, may state its own: taken for
   * a cut, it would hold up all calls until its Reset. A refusal that states no limit is about the endpoint where the
   * description has limits by endpoint, and about all calls where it has one for all.
   */
  #findUnconcerned(
    own: RateLimitModel | undefined,
    { status, headers }: AnswerHead,
    now: number,
  ): RateLimitModel | null {
    const account = this.#account?.model
    if (account === undefined || own === undefined) return null
    const { limit } = readRateHeaders(headers, now)
    if (limit !== null) {
      const ofAll = account.limit ?? Math.max(...this.#models.map((model) => model.limit ?? 0))
      return limit < ofAll && own.limit !== ofAll ? account : null
    }
    const isSilent = account.limit === null && own.limit === null
    if (status !== 429 || !isSilent || this.documented.limits.length === 0) return null
    return this.documented.isByEndpoint ? account : own
  }

  #complete(counted: CountedCall, stated: StatedUsage | null, now: number): void {
    this.#inFlight.delete(counted)
    this.documented.complete(counted.position.endpoint, now)
    this.#evidence.onCompleted(counted.position, stated, now)
    if (this.#called.size < 2 || this.#account === null) return
    if (this.#evidence.isShared && this.#own.size > 0) this.#own.clear()
    else if (this.#evidence.isOwn) {
      this.#adoptOwn(now)
      this.#account = null
    } else return
    // What is persisted of a limit that there is not would hold up the next leader. If it stays, that is all it does.
    this.#persist().catch(() => {})
  }

  /**
   * Before a second endpoint is called, what is known is the limit of the first one, or of all. From now on each has a
   * model of its own beside that of all.
   */
  #onFirstCall(endpoint: Endpoint, now: number): void {
    const [first] = this.#called
    const known = this.#account
    this.#called.add(endpoint)
    this.#trialCalls = 0
    // While it is the only one, its limit is that of all.
    if (first === undefined && known !== null) this.#prepare(endpoint, known.model)
    if (first === undefined) return
    this.#evidence.forget()
    // What counts all calls goes on doing so, if nothing but the description says that there is one limit for all.
    const isOfAll = known?.model.limit === null && this.documented.isOfAll
    if (!this.#own.has(first) && known !== null && !isOfAll) {
      // What is persisted holds for both.
      this.#account = this.#open(this.#createAdopting('all', now), known.until)
      this.#own.set(first, known)
      known.model.calls.release(this.#granted.get(endpoint) ?? 0)
    }
    this.#adoptOwn(now)
  }

  /** Each endpoint has a model of its own. */
  #adoptOwn(now: number): void {
    for (const endpoint of this.#called)
      if (!this.#own.has(endpoint)) this.#own.set(endpoint, this.#open(this.#createAdopting(endpoint, now)))
  }

  /** A model that counts what is granted or in flight to an endpoint, or to all. */
  #createAdopting(owner: Endpoint | 'all', now: number): RateLimitModel {
    const isCounted = (endpoint: Endpoint): boolean => owner === 'all' || endpoint === owner
    const model = new RateLimitModel()
    this.#prepare(owner === 'all' ? null : owner, model)
    for (const { position, parts } of this.#inFlight)
      if (isCounted(position.endpoint)) parts.push({ model, call: model.sent(position.sentAt) })
    for (const [endpoint, count] of this.#granted)
      if (isCounted(endpoint) && count > 0) model.grant(count, now)
    return model
  }

  #prepare(endpoint: Endpoint, model: RateLimitModel): void {
    const { documented, now } = this.#options
    prepareModel([endpoint, model], this.documented, documented?.usage?.learnt ?? [], now())
  }

  /** Each model with the endpoint whose calls it counts: while one alone was called, that of all calls is its own. */
  get #owned(): OwnedModel[] {
    const isOnly = this.documented.isByEndpoint && this.#called.size === 1 && this.#own.size === 0
    const [only = null] = isOnly ? this.#called : []
    return this.#stated().map(([endpoint, { model }]) => [endpoint ?? only, model])
  }

  /** @param until the persisted time until which the limit may be exhausted */
  #open(model: RateLimitModel, until?: number): CountedLimit {
    const { persistExhaustion, onPersisted } = this.#options
    const persist = persistExhaustion ? () => this.#persist() : null
    return new ExhaustionRecord(model, persist, onPersisted, until)
  }

  /** Persists what every limit has noted, one statement after the other: the later one holds what the earlier one does. */
  #persist(): Promise<void> {
    const { persistExhaustion, now } = this.#options
    const write = async (): Promise<void> => {
      const at = now()
      await persistExhaustion?.(this.#exhaustedFor(({ until }) => until - at))
    }
    this.#persisting = this.#persisting.then(write, write)
    return this.#persisting
  }

  /** The limits that a call of an endpoint may be counted against. */
  #of(endpoint: Endpoint): CountedLimit[] {
    return [this.#account, this.#own.get(endpoint), this.#beside].filter((limit) => limit != null)
  }

  get #models(): RateLimitModel[] {
    return this.#stated().map(([, { model }]) => model)
  }

  /** What headers state, each limit with its endpoint; null: of all calls. */
  #stated(): (readonly [Endpoint, CountedLimit])[] {
    return this.#account === null ? [...this.#own] : [[null, this.#account], ...this.#own]
  }

  #addGranted(endpoint: Endpoint, count: number): void {
    this.#granted.set(endpoint, Math.max(0, (this.#granted.get(endpoint) ?? 0) + count))
  }
}

/** What is granted of a documented limit, if it is less than this share of it, is said. */
const OVERSTATED_BELOW = 0.9

/** A model of the calls to an endpoint, or to all. */
type OwnedModel = readonly [endpoint: CalledEndpoint | null, model: RateLimitModel]

/** Tells a model which windows are documented for the calls that it counts, and what an earlier leader has learnt of them. */
export function prepareModel(
  [endpoint, { unstated }]: OwnedModel,
  documented: DocumentedLimits,
  learnt: readonly LearntUsage[],
  now: number,
): void {
  unstated.document(documented.of(endpoint).map(({ windowMs }) => windowMs))
  const found = learnt.find((limit) => limit.endpoint === endpoint)
  // A description that states another limit now may be right.
  if (found === undefined || found.stated !== leastStated(documented, endpoint)) return
  const { calls, windowMs } = found
  unstated.restore({ calls, windowMs }, documented.completedCalls(endpoint), now)
}

/** What is learnt below what is documented, for the next leader. */
export const listLearnt = (models: readonly OwnedModel[], documented: DocumentedLimits): LearntUsage[] =>
  models.flatMap(([endpoint, { learnt }]) => {
    const stated = leastStated(documented, endpoint)
    return learnt === null || stated === null ? [] : [{ endpoint, ...learnt, stated }]
  })

/** The documented limit that a learnt one is the truth of, if it is too high; null: none is. */
export function findOverstated(
  learnt: LearntLimit,
  documented: readonly DocumentedLimit[],
): OverstatedLimit | null {
  const distance = ({ windowMs }: DocumentedLimit): number => Math.abs(Math.log(windowMs / learnt.windowMs))
  const [stated] = documented.toSorted((a, b) => distance(a) - distance(b))
  if (stated === undefined) return null
  const granted = Math.max(1, Math.round((learnt.calls * stated.windowMs) / learnt.windowMs))
  return granted < stated.calls * OVERSTATED_BELOW ? { ...stated, granted } : null
}

/** Of the limits that are stated too high the one that is furthest from the truth; null: none is. */
function findWorstOverstated(
  models: readonly OwnedModel[],
  documented: DocumentedLimits,
): OverstatedLimit | null {
  const found = models.flatMap(
    ([endpoint, { learnt }]) => (learnt && findOverstated(learnt, documented.of(endpoint))) ?? [],
  )
  const [worst = null] = found.toSorted((a, b) => a.granted / a.calls - b.granted / b.calls)
  return worst
}

/** A refusal is about the limit of its own headers if these leave less than this share of it. */
const USED_UP_BELOW = 0.1

/** Whether a refusal is about a limit that no header states: its own headers say that much is left of the one that they state. */
function isOfUnstated({ status, headers }: AnswerHead, now: number): boolean {
  if (status !== 429) return false
  const { limit, remaining } = readRateHeaders(headers, now)
  return limit !== null && remaining !== null && remaining >= Math.max(2, limit * USED_UP_BELOW)
}

/** The answer as that limit sees it: how long to wait is all that is stated of it. */
function withoutRate({ status, headers }: AnswerHead): AnswerHead {
  const wait = headers['retry-after']
  return { status, headers: wait === undefined ? {} : { 'retry-after': wait } }
}

/** The calls of the shortest limit that counts an endpoint; null: none does. */
function leastStated(documented: DocumentedLimits, endpoint: CalledEndpoint | null): number | null {
  const [shortest] = documented.of(endpoint).toSorted((a, b) => a.windowMs - b.windowMs)
  return shortest?.calls ?? null
}
