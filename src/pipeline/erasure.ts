import { normalizeDomain } from '../domain/identifiers/domain.ts'
import { normalizeEmail } from '../domain/identifiers/email.ts'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { normalizeProfileUrl } from '../domain/identifiers/profile-url.ts'
import { isObject, parseExactJson } from '../domain/json.ts'
import * as deliveries from '../store/deliveries.ts'
import { eraseLookups } from '../store/erase.ts'
import type { DeliveryJob } from '../store/job-deliveries.ts'
import type { LookupResult } from '../store/lookup-leases.ts'
import type { Database } from '../store/open.ts'
import * as suppressions from '../store/suppressions.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'
import { parseEvent } from '../webhook/event.ts'
import { findJobCandidates, matchToMembers } from './match-delivery.ts'

export interface DeliveryBody {
  readonly eventId: string
  readonly job: string | null
  readonly jobId: string | null
  readonly body: string
}

/** One result of a delivery, with the person it is about, as far as that can be known. */
export interface ResultSubject {
  readonly eventId: string
  readonly index: number
  readonly identifiers: readonly SubjectIdentifier[]
  /** The member of the job that it answers; null: none or unknown. */
  readonly member: { readonly id: number; readonly isErased: boolean } | null
  readonly raw: unknown
}

/**
 * Finds the subject of each result. Unparseable deliveries are skipped. If several jobs qualify, the first with a
 * match counts: what may concern the person is erased.
 */
export function findResultSubjects(
  bodies: readonly DeliveryBody[],
  jobs: readonly DeliveryJob[],
): ResultSubject[] {
  return bodies.flatMap(({ eventId, job, jobId, body }) => {
    const parsed = parseEvent(body)
    if (!parsed.ok) return []
    const { results } = parsed.event
    const candidates = findJobCandidates({ job, jobId }, jobs).map((candidate) => ({
      members: candidate.job.members,
      places: matchToMembers(candidate, results),
    }))
    return results.map((item, index) => ({
      eventId,
      index,
      identifiers: findIdentifiers(item.raw),
      member:
        candidates.flatMap(({ members, places }) => {
          const member = members[places[index] ?? -1]
          // A lookup that still exists has a kind, with or without an address.
          return member === undefined ? [] : [{ id: member.id, isErased: member.kind === null }]
        })[0] ?? null,
      raw: item.raw,
    }))
  })
}

/** Removes results from delivery bodies, in the table and in the returned copies. */
export async function redactResults<Of extends DeliveryBody>(
  tx: Tx,
  bodies: readonly Of[],
  erasedResults: readonly Pick<ResultSubject, 'eventId' | 'index'>[],
): Promise<{ bodies: Of[]; results: number }> {
  const redacted = bodies.map((entry) => {
    const erasedIndexes = new Set(
      erasedResults.filter(({ eventId }) => eventId === entry.eventId).map(({ index }) => index),
    )
    const body = redactBody(entry.body, erasedIndexes)
    return body === null ? entry : { ...entry, body }
  })
  await deliveries.redactDeliveries(
    tx,
    redacted.filter((entry, n) => entry !== bodies[n]),
  )
  return { bodies: redacted, results: erasedResults.length }
}

/**
 * Removes results about erased persons from deliveries, however late they arrive. If such a result answers an
 * existing lookup, that lookup requested the same person by another identifier: it is erased too.
 */
export async function dropErased<Of extends deliveries.ClaimedDelivery>(
  tx: Tx,
  bodies: readonly Of[],
  jobs: readonly DeliveryJob[],
): Promise<readonly Of[]> {
  if (!bodies.some(({ hasSuppressions }) => hasSuppressions)) return bodies
  const results = findResultSubjects(bodies, jobs)
  const identifiers = results.flatMap((result) => result.identifiers)
  const suppressedFlags = await suppressions.areSuppressed(tx, identifiers)
  const suppressed = new Set(
    identifiers
      .filter((_, n) => suppressedFlags[n])
      .map((identifier) => `${identifier.kind}\n${identifier.key}`),
  )
  const erasedResults = results.filter(
    (result) =>
      result.member?.isErased === true ||
      result.identifiers.some((identifier) => suppressed.has(`${identifier.kind}\n${identifier.key}`)),
  )
  if (erasedResults.length === 0) return bodies
  const lookupIds = erasedResults.flatMap(({ member }) =>
    member === null || member.isErased ? [] : [member.id],
  )
  if (lookupIds.length > 0) await eraseLookups(tx, lookupIds)
  return (await redactResults(tx, bodies, erasedResults)).bodies
}

export interface SubjectIdentifier {
  readonly kind: LookupKind
  readonly key: string
}

const RESULTS_FIELD = 'results'

/**
 * Replaces some results of a delivery's body by null, by index: the positions stay, because the order of results may
 * identify them. The rest keeps every digit. Null if the body has no such results.
 */
export function redactBody(body: string, erasedIndexes: ReadonlySet<number>): string | null {
  if (erasedIndexes.size === 0) return null
  const event = parseExactJson(body.charCodeAt(0) === 0xfeff ? body.slice(1) : body)
  if (!isObject(event)) return null
  const results = event[RESULTS_FIELD]
  if (Array.isArray(results))
    return JSON.stringify({
      ...event,
      results: results.map((item, n) => (erasedIndexes.has(n) ? null : item)),
    })
  if (!isObject(results)) return null
  // A map of identifier to result: the identifier may be the address.
  const entries = Object.entries(results).map(([id, item], n) =>
    erasedIndexes.has(n) ? [`erased:${n}`, null] : [id, item],
  )
  return JSON.stringify({ ...event, results: Object.fromEntries(entries) })
}

/** Finds every person identifier among the strings of a value: email addresses and profile URLs. */
export function findIdentifiers(value: unknown): SubjectIdentifier[] {
  const found = new Map<string, SubjectIdentifier>()
  collectIdentifiers(value, found)
  return [...found.values()]
}

function collectIdentifiers(value: unknown, found: Map<string, SubjectIdentifier>): void {
  if (typeof value === 'string') {
    const identifier = parseIdentifier(value)
    if (identifier !== null) found.set(`${identifier.kind}\n${identifier.key}`, identifier)
  } else if (Array.isArray(value)) for (const item of value) collectIdentifiers(item, found)
  else if (isObject(value))
    for (const field of Object.keys(value)) {
      collectIdentifiers(field, found)
      collectIdentifiers(value[field], found)
    }
}

function parseIdentifier(text: string): SubjectIdentifier | null {
  // The shortest address is `a@b.c`.
  if (text.length < 5) return null
  const email = text.includes('@') ? normalizeEmail(text) : null
  if (email?.ok) return { kind: 'email', key: email.key }
  // Each text of each record comes by: most have no dot.
  const profile =
    text.length > 12 && text.includes('.') && /linkedin\.com/i.test(text) ? normalizeProfileUrl(text) : null
  return profile?.ok ? { kind: 'linkedin_url', key: profile.key } : null
}

/**
 * Tombstone hashes of the subject of a record: it may have been requested by another identifier than the erased one.
 */
export function subjectHashes(record: unknown): string[] {
  if (!isObject(record)) return []
  const { domain } = record
  const company = typeof domain === 'string' ? normalizeDomain(domain) : null
  return [
    ...findIdentifiers(record).map(({ kind, key }) => suppressions.suppressionHash(kind, key)),
    ...(company?.ok ? [suppressions.suppressionHash('domain', company.key)] : []),
  ]
}

/** Erases the lookups whose responses were not stored because of a tombstone. Other lookups are left alone. */
export async function eraseLateAnswers(db: Database, unstored: readonly LookupResult[]): Promise<void> {
  if (unstored.every(({ hashes = [] }) => hashes.length === 0)) return
  await inTransaction(db, async (tx) => {
    const suppressedHashes = new Set(
      await suppressions.findHashes(
        tx,
        unstored.flatMap(({ hashes = [] }) => hashes),
      ),
    )
    const lookupIds = unstored
      .filter(({ hashes = [] }) => hashes.some((hash) => suppressedHashes.has(hash)))
      .map(({ id }) => id)
    if (lookupIds.length > 0) await eraseLookups(tx, lookupIds)
  })
}
