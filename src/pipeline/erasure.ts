import * as deliveries from '../store/deliveries.ts'
import * as suppressions from '../store/suppressions.ts'
import { eraseLookups } from '../store/erase.ts'
import type { DeliveryJob } from '../store/job-deliveries.ts'
import { type Tx, inTransaction } from '../store/transaction.ts'
import { parseEvent } from '../webhook/event.ts'
import { findJobCandidates, matchToMembers } from './match-delivery.ts'
import { normalizeEmail } from '../domain/identifiers/email.ts'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { normalizeProfileUrl } from '../domain/identifiers/profile-url.ts'
import { isObject, parseExactJson } from '../domain/json.ts'
import { normalizeDomain } from '../domain/identifiers/domain.ts'
import type { LookupResult } from '../store/lookup-leases.ts'
import type { Database } from '../store/open.ts'

export interface DeliveryBody {
  readonly eventId: string
  readonly job: string | null
  readonly jobId: string | null
  readonly body: string
}

/** One result of a delivery: of whom it tells, as far as it can be known. */
export interface ResultSubject {
  readonly eventId: string
  readonly at: number
  readonly identifiers: readonly SubjectIdentifier[]
  /** The member of the job that it answers; null: none, or none that is known. */
  readonly member: { readonly id: number; readonly isErased: boolean } | null
  readonly raw: unknown
}

/**
 * The results of deliveries with what each tells of. Those that can't be read are left out. Where several jobs may be
 * meant, the first that a result matches: what may be of the person is erased.
 */
export function findResultSubjects(
  bodies: readonly DeliveryBody[],
  known: readonly DeliveryJob[],
): ResultSubject[] {
  return bodies.flatMap(({ eventId, job, jobId, body }) => {
    const parsed = parseEvent(Buffer.from(body))
    if (!parsed.ok) return []
    const { results } = parsed.event
    const matched = findJobCandidates({ job, jobId }, known).map((candidate) => ({
      members: candidate.job.members,
      places: matchToMembers(candidate, results),
    }))
    return results.map((item, at) => ({
      eventId,
      at,
      identifiers: findIdentifiers(item.raw),
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
export async function redactResults<Of extends DeliveryBody>(
  tx: Tx,
  bodies: readonly Of[],
  erased: readonly Pick<ResultSubject, 'eventId' | 'at'>[],
): Promise<{ bodies: Of[]; results: number }> {
  const redacted = bodies.map((one) => {
    const places = new Set(erased.filter(({ eventId }) => eventId === one.eventId).map(({ at }) => at))
    const body = redactBody(one.body, places)
    return body === null ? one : { ...one, body }
  })
  await deliveries.redactDeliveries(
    tx,
    redacted.filter((one, n) => one !== bodies[n]),
  )
  return { bodies: redacted, results: erased.length }
}

/**
 * Deliveries without the results that tell of somebody who was erased, also those that come years later. Where such a
 * result answers a lookup that is still there, that one asked for the same person by another name: it is erased too.
 */
export async function dropErased<Of extends DeliveryBody>(
  tx: Tx,
  bodies: readonly Of[],
  known: readonly DeliveryJob[],
): Promise<readonly Of[]> {
  if (!(await suppressions.hasSuppressions(tx))) return bodies
  const results = findResultSubjects(bodies, known)
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
  return (await redactResults(tx, bodies, erased)).bodies
}

export interface SubjectIdentifier {
  readonly kind: LookupKind
  readonly key: string
}

const RESULTS_FIELD = 'results'

/**
 * A delivery's body without some of its results, by their index: their places stay, because the order of results can
 * say whose they are. Null where the body has no such results. What is left is kept to the last digit.
 */
export function redactBody(body: string, erased: ReadonlySet<number>): string | null {
  if (erased.size === 0) return null
  const event = parseExactJson(body.charCodeAt(0) === 0xfeff ? body.slice(1) : body)
  if (!isObject(event)) return null
  const results = event[RESULTS_FIELD]
  if (Array.isArray(results))
    return JSON.stringify({ ...event, results: results.map((item, n) => (erased.has(n) ? null : item)) })
  if (!isObject(results)) return null
  // A map from identifier to result: the identifier may be the address.
  const kept = Object.entries(results).map(([id, item], n) =>
    erased.has(n) ? [`erased:${n}`, null] : [id, item],
  )
  return JSON.stringify({ ...event, results: Object.fromEntries(kept) })
}

/** Every identifier of a person among the strings of a value: addresses and profiles. */
export function findIdentifiers(value: unknown): SubjectIdentifier[] {
  const found = new Map<string, SubjectIdentifier>()
  forEachString(value, (text) => {
    for (const one of parseIdentifiers(text)) found.set(`${one.kind}\n${one.key}`, one)
  })
  return [...found.values()]
}

function parseIdentifiers(text: string): SubjectIdentifier[] {
  const email = text.includes('@') ? normalizeEmail(text) : null
  if (email?.ok) return [{ kind: 'email', key: email.key }]
  const profile = /linkedin\.com/i.test(text) ? normalizeProfileUrl(text) : null
  return profile?.ok ? [{ kind: 'linkedin_url', key: profile.key }] : []
}

function forEachString(value: unknown, tell: (text: string) => void): void {
  if (typeof value === 'string') tell(value)
  else if (Array.isArray(value)) for (const item of value) forEachString(item, tell)
  else if (isObject(value))
    for (const [field, item] of Object.entries(value)) {
      tell(field)
      forEachString(item, tell)
    }
}

/** Of whom a record tells, as tombstones would: it may have been asked for by another name than was erased. */
export function subjectHashes(record: unknown): string[] {
  if (!isObject(record)) return []
  const { domain } = record
  const company = typeof domain === 'string' ? normalizeDomain(domain) : null
  return [
    ...findIdentifiers(record).map(({ kind, key }) => suppressions.suppressionHash(kind, key)),
    ...(company?.ok ? [suppressions.suppressionHash('domain', company.key)] : []),
  ]
}

/** Erases the lookups of answers that were not stored because of a tombstone. Others are left alone. */
export async function eraseLateAnswers(db: Database, unstored: readonly LookupResult[]): Promise<void> {
  if (unstored.every(({ hashes = [] }) => hashes.length === 0)) return
  await inTransaction(db, async (tx) => {
    const erased = new Set(
      await suppressions.findHashes(
        tx,
        unstored.flatMap(({ hashes = [] }) => hashes),
      ),
    )
    const ids = unstored
      .filter(({ hashes = [] }) => hashes.some((hash) => erased.has(hash)))
      .map(({ id }) => id)
    if (ids.length > 0) await eraseLookups(tx, ids)
  })
}
