import * as erase from '../store/erase.ts'
import * as search from '../store/erase.ts'
import * as suppressions from '../store/suppressions.ts'
import type { Deps } from '../pipeline/deps.ts'
import { type Tx, inTransaction } from '../store/transaction.ts'
import { lockCandidateJobs } from '../pipeline/match-delivery.ts'
import {
  type DeliveryBody,
  type ResultSubject,
  findResultSubjects,
  redactResults,
} from '../pipeline/erasure.ts'
import { domainToUnicode } from 'node:url'
import { normalizeDomain } from '../domain/identifiers/domain.ts'
import { normalizeEmail } from '../domain/identifiers/email.ts'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { normalizeProfileUrl } from '../domain/identifiers/profile-url.ts'

/** What was erased. Holds no personal data, so that it can be kept as the proof that it was done. */
export interface ForgetReport {
  readonly dry_run: boolean
  /** The tombstones of what was asked for: SHA-256 of kind and identifier. */
  readonly tombstones: readonly { readonly kind: string; readonly hash: string }[]
  readonly erased: {
    readonly lookups: number
    readonly records: number
    readonly rows: number
    readonly changes: number
    /** Results taken out of the bodies of deliveries. */
    readonly results: number
    /** Deliveries that could not be read and held the identifier: their whole bodies. */
    readonly bodies: number
    /** Other places where the identifier was written: reasons, notes, conditions. */
    readonly mentions: number
  }
  /** Rows of the sources that told of them: Fillrate does not erase there. Their keys are the way to do it. */
  readonly rows: readonly { readonly source: string; readonly key: string }[]
  /** Every column of words in the schema was searched for the identifier. */
  readonly searched: { readonly tables: number; readonly columns: number }
  /** Where it was still found; empty unless something is wrong. */
  readonly remaining: readonly { readonly table: string; readonly column: string; readonly rows: number }[]
}

const ERASED_BODY = JSON.stringify({ erased: 'it could not be read, and held what was to be erased' })

/** Does one part. All of its SQL is in one transaction. */
type RunPart = <T>(act: (tx: Tx) => Promise<T>) => Promise<T>

/** Deliveries whose bodies are rewritten in one transaction. */
const DELIVERIES_PER_TRANSACTION = 20

/** Undoes a dry run, with what it would have done. */
class DryRunRollback extends Error {
  readonly report: ForgetReport
  constructor(report: ForgetReport) {
    super('a dry run')
    this.report = report
  }
}

/**
 * Erases what is stored of a person or a company, and sees to it that it is never asked again. The tombstones come
 * first, in a transaction of their own: from then on nothing new is picked or kept. Safe to do twice.
 *
 * Each part is a transaction of its own, and what is to be erased is looked for without a lock: a search of large tables
 * takes minutes, for which no pick and no write back may wait. Killed in between, it is run again. A dry run is one
 * transaction, because it is rolled back; it searches first, and locks last.
 * @param targets identifiers of one person or company
 */
export async function forgetSubject(
  deps: Pick<Deps, 'db' | 'log'>,
  targets: readonly ForgetTarget[],
  options: { readonly dryRun: boolean },
): Promise<ForgetReport> {
  const { db, log } = deps
  if (!options.dryRun)
    await inTransaction(db, async (tx) => {
      await suppressions.lockExclusively(tx)
      await suppressions.insertSuppressions(tx, targets)
    })
  const report = options.dryRun
    ? await previewForget(db, targets)
    : await eraseAll((act) => inTransaction(db, act), targets, false)
  log.debug(
    { erased: report.erased, searched: report.searched },
    options.dryRun ? 'would be erased' : 'erased',
  )
  return report
}

function previewForget(db: Deps['db'], targets: readonly ForgetTarget[]): Promise<ForgetReport> {
  return inTransaction(db, async (tx) => {
    throw new DryRunRollback(await eraseAll((act) => act(tx), targets, true))
  }).catch((error: unknown) => {
    if (error instanceof DryRunRollback) return error.report
    throw error
  })
}

async function eraseAll(
  part: RunPart,
  targets: readonly ForgetTarget[],
  dryRun: boolean,
): Promise<ForgetReport> {
  const pattern = targets.map((target) => target.pattern).join('|')
  const found = new Set<number>()
  for (const { kind, key, pattern: own } of targets)
    for (const id of await part((tx) => erase.findLookups(tx, kind, key, own))) found.add(id)
  const ids = await part((tx) => erase.expandByRows(tx, [...found]))
  // A company's name in a person's record is that person's: who works there is erased by an identifier of their own.
  const isCompany = targets.every((target) => target.kind === 'domain')
  const inDeliveries = isCompany ? { results: 0, bodies: 0 } : await eraseInDeliveries(part, ids, pattern)
  const erased = await part((tx) => erase.eraseLookups(tx, ids))
  const named = isCompany ? { rows: [], changes: 0 } : await eraseNamedRows(part, pattern)
  const columns = (await part(search.listTextColumns)).filter(
    (column) => !isCompany || !PERSON_TABLES.has(column.table),
  )
  let mentions = 0
  for (const column of columns) {
    const places = await part((tx) => search.findMatches(tx, column, pattern))
    mentions += await part((tx) => search.redactColumn(tx, column, pattern, places))
  }
  const remaining = []
  for (const column of columns) {
    const rows = await part((tx) => search.countMatches(tx, column, pattern))
    if (rows > 0) remaining.push({ table: column.table, column: column.column, rows })
  }
  return {
    dry_run: dryRun,
    tombstones: targets.map(({ kind, key }) => ({ kind, hash: suppressions.suppressionHash(kind, key) })),
    erased: {
      lookups: erased.lookups,
      records: erased.records,
      rows: erased.rows.length + named.rows.length,
      changes: erased.changes + named.changes,
      ...inDeliveries,
      mentions,
    },
    rows: [...erased.rows, ...named.rows],
    searched: { tables: new Set(columns.map((column) => column.table)).size, columns: columns.length },
    remaining,
  }
}

/** Tables in which a company's domain may stand as a person's employer. */
const PERSON_TABLES: ReadonlySet<string> = new Set(['lookups', 'deliveries', 'changes', 'rows', 'jobs'])

async function eraseNamedRows(part: RunPart, pattern: string): ReturnType<typeof erase.eraseByPattern> {
  const find = (what: 'rows' | 'changes' | 'written') => part((tx) => erase.findByPattern(tx, what, pattern))
  const places = { rows: await find('rows'), changes: await find('changes'), written: await find('written') }
  return part((tx) => erase.eraseByPattern(tx, places, pattern))
}

async function eraseInDeliveries(
  part: RunPart,
  ids: readonly number[],
  pattern: string,
): Promise<{ results: number; bodies: number }> {
  const eventIds = await part(async (tx) =>
    erase.findDeliveries(tx, await erase.findJobsOfLookups(tx, ids), pattern),
  )
  const sum = { results: 0, bodies: 0 }
  for (let n = 0; n < eventIds.length; n += DELIVERIES_PER_TRANSACTION) {
    const some = eventIds.slice(n, n + DELIVERIES_PER_TRANSACTION)
    const did = await part((tx) => eraseInDeliveryBatch(tx, some, ids, pattern))
    sum.results += did.results
    sum.bodies += did.bodies
  }
  return sum
}

async function eraseInDeliveryBatch(
  tx: Tx,
  eventIds: readonly string[],
  ids: readonly number[],
  pattern: string,
): Promise<{ results: number; bodies: number }> {
  const kept = await erase.lockDeliveries(tx, eventIds, pattern)
  const known = await lockCandidateJobs(tx, kept)
  const readable = kept.flatMap((one): DeliveryBody[] =>
    one.body === null ? [] : [{ ...one, body: one.body }],
  )
  const named = new RegExp(pattern, 'iu')
  const theirs = (result: ResultSubject): boolean =>
    (result.member !== null && ids.includes(result.member.id)) || named.test(JSON.stringify(result.raw))
  const erased = findResultSubjects(readable, known).filter(theirs)
  const { results } = await redactResults(tx, readable, erased)
  const unreadable = kept.filter((one) => one.unreadable)
  await erase.replaceDeliveryBodies(
    tx,
    unreadable.map((one) => one.eventId),
    ERASED_BODY,
  )
  return { results, bodies: unreadable.length }
}

/** One person or company to be forgotten. */
export interface ForgetTarget {
  readonly kind: Exclude<LookupKind, 'name_company'>
  readonly key: string
  /**
   * A regular expression that finds the identifier in any text, in any case, and no longer one that contains it.
   * Postgres and JavaScript read it alike.
   */
  readonly pattern: string
}

/** Reads what was typed. @returns the reason in words where it is no identifier */
export function parseForgetTarget(kind: ForgetTarget['kind'], typed: string): ForgetTarget | string {
  const normalized = NORMALIZE[kind](typed)
  if (normalized === null) return 'nothing in it'
  if (!normalized.ok) return normalized.reason
  return { kind, key: normalized.key, pattern: PATTERN[kind](normalized.key) }
}

const NORMALIZE = {
  email: normalizeEmail,
  linkedin_url: normalizeProfileUrl,
  domain: normalizeDomain,
} as const

/** Neither within a longer host nor before a dot that goes on; one that ends a sentence is no part of it. */
const HOST_END = String.raw`(?![a-z0-9-]|\.[a-z0-9])`

const PATTERN: Readonly<Record<ForgetTarget['kind'], (key: string) => string>> = {
  email: (key) => {
    const [local = '', host = ''] = key.split('@')
    return `(?<![a-z0-9._+-])${escapeRegExp(local)}(?:@|%40)${anyOf(host, domainToUnicode(host))}${HOST_END}`
  },
  linkedin_url: (key) => {
    const slug = key.slice(key.lastIndexOf('/') + 1)
    return String.raw`linkedin\.com(?:\\?/)+in(?:\\?/)+${anyOf(slug, encodeURIComponent(slug))}(?![a-z0-9_%-])`
  },
  domain: (key) => String.raw`(?<![a-z0-9@-])(?<!(?<!www)\.)${anyOf(key, domainToUnicode(key))}${HOST_END}`,
}

const escapeRegExp = (text: string): string => text.replaceAll(/[^\p{L}\p{N}_]/gu, (sign) => `\\${sign}`)

const anyOf = (...texts: readonly string[]): string =>
  `(?:${[...new Set(texts.filter((text) => text !== ''))].map(escapeRegExp).join('|')})`
