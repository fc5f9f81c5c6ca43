import * as deliveries from '../store/deliveries.ts'
import * as suppressions from '../store/suppressions.ts'
import { endpointOf, type LookupKind } from '../domain/identifiers/kind.ts'
import { INCOMPLETE_PAGES } from '../domain/job.ts'
import { isObject, parseExactJson } from '../domain/json.ts'
import {
  findIdentifiers,
  findSubject,
  identifierText,
  redactMentions,
  type Identifier,
} from '../domain/subject.ts'
import { eraseLookups } from '../store/erase.ts'
import { completeLookups, type LookupResult } from '../store/lookup-leases.ts'
import type { Database } from '../store/open.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'
import { parseEvent } from '../webhook/event.ts'
import { findJobCandidates, matchToMembers } from './match-delivery.ts'

export interface DeliveryBody {
  readonly id: string
  /** Whose it is; null: one of several, and its receiver did not know which. */
  readonly service: number | null
  readonly job: string | null
  readonly jobId: string | null
  readonly body: string
  /** The order of its results says nothing. Default: false. */
  readonly isUnordered?: boolean
  /** A page: how many results of its job are on the pages before. */
  readonly firstPlace?: number | null
}

/** A member of a job, whose lookup may be erased. */
interface ResultMember {
  readonly id: number
  readonly isErased: boolean
}

/** One result of a delivery, with the person it is about, as far as that can be known. */
interface ResultSubject {
  readonly delivery: string
  readonly index: number
  /** Of its subject. */
  readonly identifiers: readonly Identifier[]
  /** The member of the job that it answers; null: none or unknown. */
  readonly member: ResultMember | null
  /** It answers none and has no identifier of the job's kinds: members that it may be about. */
  readonly mayBe: readonly ResultMember[]
  readonly raw: unknown
}

/**
 * Finds the subject of each result. Unparseable deliveries are skipped. If several jobs qualify, the first with a
 * match counts: what may concern the person is erased.
 * @param service null: also the place of a result says whose it is
 */
export function findResultSubjects(
  bodies: readonly DeliveryBody[],
  jobs: readonly deliveries.DeliveryJob[],
  service: Parameters<typeof matchToMembers>[2] = null,
): ResultSubject[] {
  return bodies.flatMap(({ id, service: of, job, jobId, body, isUnordered = false, firstPlace = null }) => {
    const parsed = parseEvent(body)
    if (!parsed.ok) return []
    const { results, status } = parsed.event
    const isWhole = !isUnordered && status !== INCOMPLETE_PAGES
    const candidates = findJobCandidates({ service: of, job, jobId }, jobs).map((candidate) => ({
      members: candidate.job.members,
      places: matchToMembers(candidate, results, service, { isWhole }),
    }))
    const kinds = new Set(candidates.flatMap(({ members }) => members.flatMap(({ kind }) => kind ?? [])))
    const endpoint = kinds.has('domain') ? 'company' : 'person'
    return results.map((item, index) => {
      const matched = candidates.flatMap(({ members, places }) => members[places[index] ?? -1] ?? [])
      const identifiers = [...findSubject(endpoint, item.raw), ...findIdentifiers(item.requestId)]
      const isStranger = identifiers.some(({ kind }) => kinds.size === 0 || kinds.has(kind))
      const mayBe =
        matched.length > 0 || isStranger
          ? []
          : candidates.flatMap(({ members, places }) =>
              firstPlace === null
                ? members.filter((_, place) => !places.includes(place))
                : (members[firstPlace + index] ?? []),
            )
      // A lookup that still exists has a kind, with or without an address.
      const toMember = (member: deliveries.DeliveryJob['members'][number]): ResultMember => ({
        id: member.id,
        isErased: member.kind === null,
      })
      const member = matched[0] === undefined ? null : toMember(matched[0])
      return { delivery: id, index, identifiers, member, mayBe: mayBe.map(toMember), raw: item.raw }
    })
  })
}

/** Matches nothing, in Postgres and in JavaScript: deliveries are found by their jobs. */
export const NO_TEXT = '(?!)'

/** A result to be removed, or what replaces it. */
export type RedactedResult = Pick<ResultSubject, 'delivery' | 'index'> & { readonly redacted: unknown }

/** Replaces results in delivery bodies, in the table and in the returned copies; null removes one. */
export async function redactResults<Of extends DeliveryBody>(
  tx: Tx,
  bodies: readonly Of[],
  redactedResults: readonly RedactedResult[],
): Promise<Of[]> {
  const redacted = bodies.map((entry) => {
    const byIndex = new Map(
      redactedResults
        .filter(({ delivery }) => delivery === entry.id)
        .map(({ index, redacted }) => [index, redacted]),
    )
    const body = redactBody(entry.body, byIndex)
    return body === null ? entry : { ...entry, body }
  })
  await deliveries.redactDeliveries(
    tx,
    redacted.filter((entry, n) => entry !== bodies[n]),
  )
  return redacted
}

/**
 * Removes results about erased persons from deliveries, however late they arrive, and mentions of them from the others. If
 * such a result answers an existing lookup, that lookup requested the same person by another identifier: it is erased too.
 */
export async function dropErased<Of extends deliveries.ClaimedDelivery>(
  tx: Tx,
  bodies: readonly Of[],
  jobs: readonly deliveries.DeliveryJob[],
  service: Parameters<typeof matchToMembers>[2],
): Promise<readonly Of[]> {
  if (!bodies.some(({ hasSuppressions }) => hasSuppressions)) return bodies
  const results = findResultSubjects(bodies, jobs, service)
  const named = results.map(({ identifiers, raw }) => [...identifiers, ...findIdentifiers(raw)])
  const suppressed = await suppressions.findSuppressed(tx, named.flat())
  const isSuppressed = (identifier: Identifier): boolean => suppressed.has(identifierText(identifier))
  const redacted = results.flatMap((result, n): (RedactedResult & ResultSubject)[] => {
    const { member, mayBe } = result
    if ([member, ...mayBe].some((member) => member?.isErased) || result.identifiers.some(isSuppressed))
      return [{ ...result, redacted: null }]
    if (named[n]?.some(isSuppressed) !== true) return []
    return [{ ...result, redacted: redactMentions(result.raw, isSuppressed) }]
  })
  if (redacted.length === 0) return bodies
  const lookupIds = redacted.flatMap(({ member, redacted: rest }) =>
    rest !== null || member === null || member.isErased ? [] : [member.id],
  )
  if (lookupIds.length > 0) await eraseLookups(tx, lookupIds)
  return redactResults(tx, bodies, redacted)
}

const RESULTS_FIELD = 'results'

/**
 * Replaces some results of a delivery's body, by index; one that is removed becomes null: the positions stay, because the
 * order of results may identify them. The rest keeps every digit. Null if the body has no such results.
 */
function redactBody(body: string, redacted: ReadonlyMap<number, unknown>): string | null {
  if (redacted.size === 0) return null
  const event = parseExactJson(body.charCodeAt(0) === 0xfeff ? body.slice(1) : body)
  if (!isObject(event)) return null
  const results = event[RESULTS_FIELD]
  if (Array.isArray(results))
    return JSON.stringify({
      ...event,
      results: results.map((item: unknown, n) => (redacted.has(n) ? redacted.get(n) : item)),
    })
  if (!isObject(results)) return null
  // A map of identifier to result: the identifier may be the address.
  const entries = Object.entries(results).map(([id, item], n) => {
    if (!redacted.has(n)) return [id, item]
    return redacted.get(n) === null ? [`erased:${n}`, null] : [id, redacted.get(n)]
  })
  return JSON.stringify({ ...event, results: Object.fromEntries(entries) })
}

/**
 * Suppression hashes of a record: those of its subject, which may have been requested by another identifier than the erased
 * one, and of those whom it mentions.
 */
export function recordHashes(
  kind: LookupKind,
  record: unknown,
): Required<Pick<LookupResult, 'hashes' | 'subjectHashes'>> {
  const toHashes = (identifiers: readonly Identifier[]): string[] =>
    identifiers.map((identifier) => suppressions.suppressionHash(identifier.kind, identifier.key))
  const subjectHashes = toHashes(findSubject(endpointOf(kind), record))
  return { subjectHashes, hashes: [...new Set([...subjectHashes, ...toHashes(findIdentifiers(record))])] }
}

/**
 * Settles answers that were not stored because of a tombstone: what is about an erased subject is erased,
 * which counts its call, and what only mentions one is stored without the mention. Other answers are left
 * alone. Idempotent.
 */
export async function settleUnstored(db: Database, unstored: readonly LookupResult[]): Promise<void> {
  for (let left = unstored; left.some(({ hashes = [] }) => hashes.length > 0);) {
    const named = left
    const rest = await inTransaction(db, async (tx) => {
      const hashes = named.flatMap(({ hashes }) => hashes ?? [])
      const suppressed = new Set(await suppressions.findHashes(tx, hashes))
      const isSuppressed = (hash: string): boolean => suppressed.has(hash)
      const answers = named.filter(({ subjectHashes = [] }) => subjectHashes.some(isSuppressed))
      const ids = answers.map(({ id }) => id)
      if (ids.length > 0) await eraseLookups(tx, ids, { answers })
      const mentioning = named.filter(
        (result) => !answers.includes(result) && result.hashes?.some(isSuppressed),
      )
      return mentioning.map((result) => ({
        ...result,
        record: redactMentions(result.record, ({ kind, key }) =>
          isSuppressed(suppressions.suppressionHash(kind, key)),
        ) as LookupResult['record'],
        hashes: result.hashes?.filter((hash) => !isSuppressed(hash)) ?? [],
      }))
    })
    left = (await completeLookups(db, rest)).unstored
  }
}
