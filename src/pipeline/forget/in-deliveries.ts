import * as deliveries from '../../store/deliveries.ts'
import { eraseLookups } from '../../store/erase.ts'
import type { JobOfDelivery } from '../../store/delivered-jobs.ts'
import * as suppressions from '../../store/suppressions.ts'
import type { StoreTransaction } from '../../store/transaction.ts'
import { parseEvent } from '../../webhook/event.ts'
import { candidatesOf } from '../settle/job-of-delivery.ts'
import { matchItems } from '../settle/match.ts'
import { identifiersIn, withoutResults, type Identifier } from './redact.ts'

export interface Body {
  readonly eventId: string
  readonly job: string | null
  readonly jobId: string | null
  readonly body: string
}

/** One result of a delivery: of whom it tells, as far as it can be known. */
export interface TellingResult {
  readonly eventId: string
  readonly at: number
  readonly identifiers: readonly Identifier[]
  /** The member of the job that it answers; null: none, or none that is known. */
  readonly member: { readonly id: number; readonly isErased: boolean } | null
  readonly raw: unknown
}

/**
 * The results of deliveries with what each tells of. Those that can't be read are left out. Where several jobs may be
 * meant, the first that a result matches: what may be of the person is erased.
 */
export function resultsOf(bodies: readonly Body[], known: readonly JobOfDelivery[]): TellingResult[] {
  return bodies.flatMap(({ eventId, job, jobId, body }) => {
    const parsed = parseEvent(Buffer.from(body))
    if (!parsed.ok) return []
    const { results } = parsed.event
    const matched = candidatesOf({ job, jobId }, known).map((candidate) => ({
      members: candidate.job.members,
      places: matchItems(candidate, results),
    }))
    return results.map((item, at) => ({
      eventId,
      at,
      identifiers: identifiersIn(item.raw),
      member:
        matched.flatMap(({ members, places }) => {
          const member = members[places[at] ?? -1]
          // A lookup that is still there has a kind, with or without an address.
          return member === undefined ? [] : [{ id: member.id, isErased: member.kind === null }]
        })[0] ?? null,
      raw: item.raw,
    }))
  })
}

/** Takes results out of the bodies of deliveries, in the table and in what is given back. */
export async function takeOut<Of extends Body>(
  tx: StoreTransaction,
  bodies: readonly Of[],
  erased: readonly Pick<TellingResult, 'eventId' | 'at'>[],
): Promise<{ bodies: Of[]; results: number }> {
  const redacted = bodies.map((one) => {
    const places = new Set(erased.filter(({ eventId }) => eventId === one.eventId).map(({ at }) => at))
    const body = withoutResults(one.body, places)
    return body === null ? one : { ...one, body }
  })
  await deliveries.redact(
    tx,
    redacted.filter((one, n) => one !== bodies[n]),
  )
  return { bodies: redacted, results: erased.length }
}

/**
 * Deliveries without the results that tell of somebody who was erased, also those that come years later. Where such a
 * result answers a lookup that is still there, that one asked for the same person by another name: it is erased too.
 */
export async function withoutErased<Of extends Body>(
  tx: StoreTransaction,
  bodies: readonly Of[],
  known: readonly JobOfDelivery[],
): Promise<readonly Of[]> {
  if (!(await suppressions.any(tx))) return bodies
  const results = resultsOf(bodies, known)
  const named = results.flatMap((result) => result.identifiers)
  const flags = await suppressions.areSuppressed(tx, named)
  const suppressed = new Set(named.filter((_, n) => flags[n]).map((one) => `${one.kind}\n${one.key}`))
  const erased = results.filter(
    (result) =>
      result.member?.isErased === true ||
      result.identifiers.some((one) => suppressed.has(`${one.kind}\n${one.key}`)),
  )
  if (erased.length === 0) return bodies
  const ids = erased.flatMap(({ member }) => (member === null || member.isErased ? [] : [member.id]))
  if (ids.length > 0) await eraseLookups(tx, ids)
  return (await takeOut(tx, bodies, erased)).bodies
}
