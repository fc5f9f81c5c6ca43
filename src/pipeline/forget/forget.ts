import type { Deps } from '../deps.ts'
import * as erase from '../../store/erase.ts'
import * as search from '../../store/search.ts'
import * as suppressions from '../../store/suppressions.ts'
import { inTransaction, type StoreTransaction } from '../../store/transaction.ts'
import { jobsOf } from '../settle/job-of-delivery.ts'
import { resultsOf, takeOut, type Body, type TellingResult } from './in-deliveries.ts'
import type { Target } from './target.ts'

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

const UNREADABLE = JSON.stringify({ erased: 'it could not be read, and held what was to be erased' })

/** Does one part. All of its SQL is in one transaction. */
type Part = <T>(act: (tx: StoreTransaction) => Promise<T>) => Promise<T>

/** Deliveries whose bodies are rewritten in one transaction. */
const DELIVERIES_AT_ONCE = 20

/** Undoes a dry run, with what it would have done. */
class Rehearsed extends Error {
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
export async function forget(
  deps: Pick<Deps, 'db' | 'log'>,
  targets: readonly Target[],
  options: { readonly dryRun: boolean },
): Promise<ForgetReport> {
  const { db, log } = deps
  if (!options.dryRun)
    await inTransaction(db, async (tx) => {
      await suppressions.shutOut(tx)
      await suppressions.insert(tx, targets)
    })
  const report = options.dryRun
    ? await rehearse(db, targets)
    : await eraseAll((act) => inTransaction(db, act), targets, false)
  log.debug(
    { erased: report.erased, searched: report.searched },
    options.dryRun ? 'would be erased' : 'erased',
  )
  return report
}

function rehearse(db: Deps['db'], targets: readonly Target[]): Promise<ForgetReport> {
  return inTransaction(db, async (tx) => {
    throw new Rehearsed(await eraseAll((act) => act(tx), targets, true))
  }).catch((error: unknown) => {
    if (error instanceof Rehearsed) return error.report
    throw error
  })
}

async function eraseAll(part: Part, targets: readonly Target[], dryRun: boolean): Promise<ForgetReport> {
  const pattern = targets.map((target) => target.pattern).join('|')
  const found = new Set<number>()
  for (const { kind, key, pattern: own } of targets)
    for (const id of await part((tx) => erase.find(tx, kind, key, own))) found.add(id)
  const ids = await part((tx) => erase.withSameRows(tx, [...found]))
  // A company's name in a person's record is that person's: who works there is erased by an identifier of their own.
  const isCompany = targets.every((target) => target.kind === 'domain')
  const inDeliveries = isCompany ? { results: 0, bodies: 0 } : await eraseInDeliveries(part, ids, pattern)
  const erased = await part((tx) => erase.eraseLookups(tx, ids))
  const named = isCompany ? { rows: [], changes: 0 } : await eraseNamed(part, pattern)
  const columns = (await part(search.columns)).filter((column) => !isCompany || !PERSONS.has(column.table))
  let mentions = 0
  for (const column of columns) {
    const places = await part((tx) => search.find(tx, column, pattern))
    mentions += await part((tx) => search.blot(tx, column, pattern, places))
  }
  const remaining = []
  for (const column of columns) {
    const rows = await part((tx) => search.count(tx, column, pattern))
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
const PERSONS: ReadonlySet<string> = new Set(['lookups', 'deliveries', 'changes', 'rows', 'jobs'])

async function eraseNamed(part: Part, pattern: string): ReturnType<typeof erase.eraseNamed> {
  const find = (what: 'rows' | 'changes' | 'written') => part((tx) => erase.findNamed(tx, what, pattern))
  const places = { rows: await find('rows'), changes: await find('changes'), written: await find('written') }
  return part((tx) => erase.eraseNamed(tx, places, pattern))
}

async function eraseInDeliveries(
  part: Part,
  ids: readonly number[],
  pattern: string,
): Promise<{ results: number; bodies: number }> {
  const eventIds = await part(async (tx) =>
    erase.deliveriesToLookAt(tx, await erase.jobsOf(tx, ids), pattern),
  )
  const sum = { results: 0, bodies: 0 }
  for (let n = 0; n < eventIds.length; n += DELIVERIES_AT_ONCE) {
    const some = eventIds.slice(n, n + DELIVERIES_AT_ONCE)
    const did = await part((tx) => eraseInSome(tx, some, ids, pattern))
    sum.results += did.results
    sum.bodies += did.bodies
  }
  return sum
}

async function eraseInSome(
  tx: StoreTransaction,
  eventIds: readonly string[],
  ids: readonly number[],
  pattern: string,
): Promise<{ results: number; bodies: number }> {
  const kept = await erase.lockDeliveries(tx, eventIds, pattern)
  const known = await jobsOf(tx, kept)
  const readable = kept.flatMap((one): Body[] => (one.body === null ? [] : [{ ...one, body: one.body }]))
  const named = new RegExp(pattern, 'iu')
  const theirs = (result: TellingResult): boolean =>
    (result.member !== null && ids.includes(result.member.id)) || named.test(JSON.stringify(result.raw))
  const erased = resultsOf(readable, known).filter(theirs)
  const { results } = await takeOut(tx, readable, erased)
  const unreadable = kept.filter((one) => one.unreadable)
  await erase.replaceBodies(
    tx,
    unreadable.map((one) => one.eventId),
    UNREADABLE,
  )
  return { results, bodies: unreadable.length }
}
