import { domainToUnicode } from 'node:url'
import { normalizeDomain } from '../domain/identifiers/domain.ts'
import { normalizeEmail } from '../domain/identifiers/email.ts'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { normalizeProfileUrl } from '../domain/identifiers/profile-url.ts'
import type { Deps } from '../pipeline/deps.ts'
import {
  findResultSubjects,
  redactResults,
  type DeliveryBody,
  type ResultSubject,
} from '../pipeline/erasure.ts'
import { lockCandidateJobs } from '../pipeline/match-delivery.ts'
import * as erase from '../store/erase.ts'
import * as search from '../store/erase.ts'
import * as suppressions from '../store/suppressions.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'

/** What was erased. It holds no personal data, so it can be kept as evidence. */
export interface ForgetReport {
  readonly dry_run: boolean
  /** The tombstones: SHA-256 of kind and identifier. */
  readonly tombstones: readonly { readonly kind: string; readonly hash: string }[]
  readonly erased: {
    readonly lookups: number
    readonly records: number
    readonly rows: number
    readonly changes: number
    /** Results removed from delivery bodies. */
    readonly results: number
    /** Unparseable deliveries that held the identifier: their whole bodies are replaced. */
    readonly bodies: number
    /** Other places that held the identifier: reasons, notes, conditions. */
    readonly mentions: number
  }
  /** Source rows that refer to the subject, by key. Fillrate does not erase in the user's tables. */
  readonly rows: readonly { readonly source: string; readonly key: string }[]
  /** Every text column of the schema was searched for the identifier. */
  readonly searched: { readonly tables: number; readonly columns: number }
  /** Where the identifier was still found. Empty unless something is wrong. */
  readonly remaining: readonly { readonly table: string; readonly column: string; readonly rows: number }[]
}

const ERASED_BODY = JSON.stringify({ erased: 'unparseable, and contained the erased identifier' })

/** Runs one part of the erasure, with all its SQL in one transaction. */
type RunPart = <T>(act: (tx: Tx) => Promise<T>) => Promise<T>

/** Deliveries whose bodies are rewritten in one transaction. */
const DELIVERIES_PER_TRANSACTION = 20

/** Rolls back a dry run, carrying its report. */
class DryRunRollback extends Error {
  readonly report: ForgetReport
  constructor(report: ForgetReport) {
    super('a dry run')
    this.report = report
  }
}

/**
 * Erases everything stored about a person or company, and suppresses future lookups. The tombstones are inserted
 * first, in their own transaction: from then on nothing new is picked or stored. Idempotent.
 *
 * Each part is its own transaction, and the search takes no locks: searching large tables takes minutes, which no
 * pick or write-back may wait for. If killed, run it again. A dry run is a single transaction, because it is rolled
 * back; it searches first and locks last.
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
    { event: 'data_erased', erased: report.erased, searched: report.searched },
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
  runPart: RunPart,
  targets: readonly ForgetTarget[],
  dryRun: boolean,
): Promise<ForgetReport> {
  const pattern = targets.map((target) => target.pattern).join('|')
  const foundIds = new Set<number>()
  for (const { kind, key, pattern: ownPattern } of targets)
    for (const id of await runPart((tx) => erase.findLookups(tx, kind, key, ownPattern))) foundIds.add(id)
  const ids = await runPart((tx) => erase.expandByRows(tx, [...foundIds]))
  // A company's name in a person's record belongs to that person, who is erased by an identifier of their own.
  const isCompany = targets.every((target) => target.kind === 'domain')
  const inDeliveries = isCompany ? { results: 0, bodies: 0 } : await eraseInDeliveries(runPart, ids, pattern)
  const erased = await runPart((tx) => erase.eraseLookups(tx, ids))
  const named = isCompany ? { rows: [], changes: 0 } : await eraseNamedRows(runPart, pattern)
  const columns = (await runPart(search.listTextColumns)).filter(
    (column) => !isCompany || !PERSON_TABLES.has(column.table),
  )
  let mentions = 0
  for (const column of columns) {
    const places = await runPart((tx) => search.findMatches(tx, column, pattern))
    mentions += await runPart((tx) => search.redactColumn(tx, column, pattern, places))
  }
  const remaining = []
  for (const column of columns) {
    const rows = await runPart((tx) => search.countMatches(tx, column, pattern))
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

/** Tables in which a company's domain may occur as a person's employer. */
const PERSON_TABLES: ReadonlySet<string> = new Set([
  'lookups',
  'deliveries',
  'changes',
  'skipped_cells',
  'rows',
  'due_rows',
  'jobs',
])

async function eraseNamedRows(runPart: RunPart, pattern: string): ReturnType<typeof erase.eraseByPattern> {
  const find = (what: 'rows' | 'changes' | 'written' | 'skipped') =>
    runPart((tx) => erase.findByPattern(tx, what, pattern))
  const places = {
    rows: await find('rows'),
    changes: await find('changes'),
    written: await find('written'),
    skipped: await find('skipped'),
  }
  return runPart((tx) => erase.eraseByPattern(tx, places, pattern))
}

async function eraseInDeliveries(
  runPart: RunPart,
  ids: readonly number[],
  pattern: string,
): Promise<{ results: number; bodies: number }> {
  const eventIds = await runPart(async (tx) =>
    erase.findDeliveries(tx, await erase.findJobsOfLookups(tx, ids), pattern),
  )
  const total = { results: 0, bodies: 0 }
  for (let n = 0; n < eventIds.length; n += DELIVERIES_PER_TRANSACTION) {
    const eventIdBatch = eventIds.slice(n, n + DELIVERIES_PER_TRANSACTION)
    const erasedCounts = await runPart((tx) => eraseInDeliveryBatch(tx, eventIdBatch, ids, pattern))
    total.results += erasedCounts.results
    total.bodies += erasedCounts.bodies
  }
  return total
}

async function eraseInDeliveryBatch(
  tx: Tx,
  eventIds: readonly string[],
  ids: readonly number[],
  pattern: string,
): Promise<{ results: number; bodies: number }> {
  const lockedDeliveries = await erase.lockDeliveries(tx, eventIds, pattern)
  const jobs = await lockCandidateJobs(tx, lockedDeliveries)
  const parseable = lockedDeliveries.flatMap((one): DeliveryBody[] =>
    one.body === null ? [] : [{ ...one, body: one.body }],
  )
  const named = new RegExp(pattern, 'iu')
  const isAboutSubject = (result: ResultSubject): boolean =>
    (result.member !== null && ids.includes(result.member.id)) || named.test(JSON.stringify(result.raw))
  const erased = findResultSubjects(parseable, jobs).filter(isAboutSubject)
  const { results } = await redactResults(tx, parseable, erased)
  const unreadable = lockedDeliveries.filter((one) => one.unreadable)
  await erase.replaceDeliveryBodies(
    tx,
    unreadable.map((one) => one.eventId),
    ERASED_BODY,
  )
  return { results, bodies: unreadable.length }
}

/** One person or company to erase. */
export interface ForgetTarget {
  readonly kind: Exclude<LookupKind, 'name_company'>
  readonly key: string
  /**
   * A regular expression that matches the identifier anywhere in a text, case-insensitively, but not inside a longer
   * identifier. Valid in Postgres and JavaScript.
   */
  readonly pattern: string
}

/**
 * Parses an identifier.
 * @returns the reason if it is not valid
 */
export function parseForgetTarget(kind: ForgetTarget['kind'], typed: string): ForgetTarget | string {
  const normalized = NORMALIZE[kind](typed)
  if (normalized === null) return 'it is empty'
  if (!normalized.ok) return normalized.reason
  return { kind, key: normalized.key, pattern: PATTERN[kind](normalized.key) }
}

const NORMALIZE = {
  email: normalizeEmail,
  linkedin_url: normalizeProfileUrl,
  domain: normalizeDomain,
} as const

/** Not inside a longer host name. A dot at the end of a sentence is not part of the host. */
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
