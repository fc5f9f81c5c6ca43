import type { LearntLimit, LearntUsage, OverstatedLimit } from '../../domain/rate-status.ts'
import type { AnswerHead } from '../../domain/service/head.ts'
import type { CalledEndpoint } from '../../domain/spend.ts'
import type { DocumentedLimit } from '../../domain/service/documented-limit.ts'
import type { DocumentedLimits } from './documented-limits.ts'
import { readRateHeaders } from './headers.ts'
import type { RateLimitModel } from './model.ts'

/** What is granted of a documented limit, if it is less than this share of it, is said. */
const OVERSTATED_BELOW = 0.9

/** A model of the calls to an endpoint, or to all. */
export type OwnedModel = readonly [endpoint: CalledEndpoint | null, model: RateLimitModel]

/** What may count a call: the model of all calls, that of its endpoint, and these with those of the other endpoints. */
interface EndpointPair {
  readonly account: RateLimitModel | undefined
  readonly own: RateLimitModel | undefined
  readonly all: readonly RateLimitModel[]
}

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

/**
 * The model with the least limit: that of all calls, or one of the endpoints if these have limits of their own.
 * @param account undefined: there is no limit of all calls
 */
export function findLeast(
  account: RateLimitModel | undefined,
  models: readonly RateLimitModel[],
  documented: DocumentedLimits,
): RateLimitModel {
  const limitOf = ({ limit, learnt }: RateLimitModel): number =>
    limit ?? learnt?.calls ?? Number.POSITIVE_INFINITY
  if (account !== undefined && (account.limit !== null || !documented.isByEndpoint)) return account
  return models.reduce((least, model) => (limitOf(model) < limitOf(least) ? model : least))
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
export function findWorstOverstated(
  models: readonly OwnedModel[],
  documented: DocumentedLimits,
): OverstatedLimit | null {
  const found = models.flatMap(
    ([endpoint, { learnt }]) => (learnt && findOverstated(learnt, documented.of(endpoint))) ?? [],
  )
  const [worst = null] = found.toSorted((a, b) => a.granted / a.calls - b.granted / b.calls)
  return worst
}

/**
 * The one of an endpoint's two models that an answer says nothing about; null: it may concern both.
 *
 * An endpoint that states less than the limit of all, and has never stated that limit, may state its own: taken for
 * a cut, it would hold up all calls until its Reset. A refusal that states no limit is about the endpoint where the
 * description has limits by endpoint, and about all calls where it has one for all.
 */
export function findUnconcerned(
  { account, own, all }: EndpointPair,
  documented: DocumentedLimits,
  { status, headers }: AnswerHead,
  now: number,
): RateLimitModel | null {
  if (account === undefined || own === undefined) return null
  const { limit } = readRateHeaders(headers, now)
  if (limit !== null) {
    const ofAll = account.limit ?? Math.max(...all.map((model) => model.limit ?? 0))
    return limit < ofAll && own.limit !== ofAll ? account : null
  }
  const isSilent = account.limit === null && own.limit === null
  if (status !== 429 || !isSilent || documented.limits.length === 0) return null
  return documented.isByEndpoint ? account : own
}

/** A refusal is about the limit of its own headers if these leave less than this share of it. */
const USED_UP_BELOW = 0.1

/** Whether a refusal is about a limit that no header states: its own headers say that much is left of the one that they state. */
export function isOfUnstated({ status, headers }: AnswerHead, now: number): boolean {
  if (status !== 429) return false
  const { limit, remaining } = readRateHeaders(headers, now)
  return limit !== null && remaining !== null && remaining >= Math.max(2, limit * USED_UP_BELOW)
}

/** The answer as that limit sees it: how long to wait is all that is stated of it. */
export function withoutRate({ status, headers }: AnswerHead): AnswerHead {
  const wait = headers['retry-after']
  return { status, headers: wait === undefined ? {} : { 'retry-after': wait } }
}

/** The calls of the shortest limit that counts an endpoint; null: none does. */
function leastStated(documented: DocumentedLimits, endpoint: CalledEndpoint | null): number | null {
  const [shortest] = documented.of(endpoint).toSorted((a, b) => a.windowMs - b.windowMs)
  return shortest?.calls ?? null
}
