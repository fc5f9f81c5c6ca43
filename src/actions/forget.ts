import * as erase from '../store/erase.ts'
import * as suppressions from '../store/suppressions.ts'
import { describeError, FillrateError } from '../util/error-text.ts'
import type { Deps } from '../pipeline/deps.ts'
import type { Source } from '../sources/source-model.ts'
import { expiresAfter, retryWhileUnavailable, inTransaction, type Tx } from '../store/transaction.ts'
import {
  findRowsByInputs,
  toForgetTarget,
  type ForgetTarget,
  type UnsearchedSource,
} from './forget-target.ts'
import { endpointOf } from '../domain/identifiers/kind.ts'
import { listNameKeys } from '../domain/identifiers/name-company.ts'
import {
  ERASED_TEXT,
  findSubject,
  identifierText,
  redactStrings,
  type Identifier,
} from '../domain/subject.ts'
import { findResultSubjects, NO_TEXT, redactResults, type RedactedResult } from '../pipeline/erasure.ts'
import { lockCandidateJobs } from '../pipeline/match-delivery.ts'
import { redactDeliveries } from '../store/deliveries.ts'

/** What was erased. It holds no personal data, so it can be kept as evidence. */
export interface ForgetReport {
  readonly dry_run: boolean
  /** The tombstones: SHA-256 of kind and identifier. */
  readonly tombstones: readonly { readonly kind: string; readonly hash: string }[]
  readonly erased: {
    readonly lookups: number
    readonly records: number
    /** Those of other identifiers: rows and records that have both link them to the subject. */
    readonly linked_lookups: number
    readonly rows: number
    readonly changes: number
    /** Results removed from delivery bodies. */
    readonly results: number
    /** Unparseable deliveries that held the identifier: their whole bodies are replaced. */
    readonly bodies: number
    /** Other places that held the identifier: records and cells of others, reasons, notes, conditions. */
    readonly mentions: number
  }
  /** Source rows that refer to the subject, by key. Fillrate does not erase in the user's tables. */
  readonly rows: readonly { readonly source: string; readonly key: string }[]
  /** Every text column of the schema was searched for the identifier, and the inputs of the sources' rows as they are now. */
  readonly searched: {
    readonly tables: number
    readonly columns: number
    readonly sources: readonly string[]
  }
  /** Sources whose rows could not be searched: what was written to their rows may be left. Empty unless something is wrong. */
  readonly unsearched: readonly UnsearchedSource[]
  /** Where the identifier was still found. Empty unless something is wrong. */
  readonly remaining: readonly { readonly table: string; readonly column: string; readonly rows: number }[]
}

type StoredReport = Pick<ForgetReport, 'erased' | 'rows' | 'remaining'> & {
  readonly searched: Omit<ForgetReport['searched'], 'sources'>
}

/**
 * Erases everything stored about a person or company, and suppresses future lookups. Idempotent: after a failure or
 * a kill, the next call erases what is left. The tombstones come first, in a transaction of their own: from then on
 * nothing new is picked or stored.
 *
 * Each part is a transaction, and the search takes no locks: it takes minutes in large tables, for which no pick or
 * write-back may wait. A dry run is one transaction that is rolled back; it searches first and locks last.
 * @param targets identifiers of one person or company
 * @throws ForgetUnfinishedError where it fails after the tombstones
 */
export async function forgetSubject(
  deps: Pick<Deps, 'db' | 'log'> & {
    readonly sources?: readonly Source[]
    /** Sources that cannot be opened, for the report. */
    readonly unopened?: readonly UnsearchedSource[]
  },
  targets: readonly ForgetTarget[],
  options: { readonly dryRun: boolean; readonly includeLinked?: boolean },
): Promise<ForgetReport> {
  const { db, log, sources = [], unopened = [] } = deps
  const { dryRun } = options
  const unreadable = new Map<string, UnsearchedSource>()
  const expand = (named: readonly ForgetTarget[]): Promise<Subject> =>
    expandSubject(runPart, named, async (wanted) => {
      const found = await findRowsByInputs(db, sources, wanted)
      for (const entry of found.unreadable) unreadable.set(entry.source, entry)
      return found.rows
    })
  const runPart: RunPart = (act) =>
    retryWhileUnavailable(() => inTransaction(db, act), {
      giveUp: expiresAfter(UNAVAILABLE_MS),
    })
  const subject = await expand(targets)
  if (!dryRun) {
    if (subject.linked.identifiers > MAX_LINKED && options.includeLinked !== true)
      throw new LinkedEraseError(subject.linked)
    await insertTombstones(db, targets)
  }
  const report = dryRun
    ? await rollBack(db, (tx) => erasePasses((act) => act(tx), targets, [async () => subject]))
    : await erasePasses(
        runPart,
        targets,
        Array.from({ length: MAX_PASSES }, () => expand),
      ).catch((error: unknown) => {
        throw new ForgetUnfinishedError(error)
      })
  log.debug(
    { event: 'data_erased', erased: report.erased, searched: report.searched },
    dryRun ? 'would be erased' : 'erased',
  )
  const searched = sources.map(({ name }) => name).filter((name) => !unreadable.has(name))
  return {
    dry_run: dryRun,
    tombstones: targets.map(({ kind, key }) => ({ kind, hash: suppressions.suppressionHash(kind, key) })),
    ...report,
    searched: { ...report.searched, sources: searched },
    unsearched: [...unopened, ...unreadable.values()],
  }
}

/** The tombstones are stored, and the erasure ended in its middle: what is left is erased by the same command again. */
class ForgetUnfinishedError extends FillrateError {
  override readonly name = 'ForgetUnfinishedError'
  constructor(cause: unknown) {
    super(
      `the erasure did not finish (${describeError(cause)}): further lookups are suppressed, but stored data may be left. Correct the ` +
        'cause, and run the same command again: it erases what is left',
      { cause },
    )
  }
}

/** More other identifiers than one person or company has: a shared address links strangers. */
const MAX_LINKED = 10

/** The subject is linked to more other identifiers than one person or company has. */
export class LinkedEraseError extends FillrateError {
  override readonly name = 'LinkedEraseError'
  constructor({ identifiers, lookups }: Subject['linked']) {
    super(
      `${identifiers} other identifiers (${lookups} lookups) are linked to this one by the rows and records that have both; expected ` +
        `at most ${MAX_LINKED} of one person or company, so nothing was erased`,
    )
  }
}

/** How long an erasure that has begun waits for Postgres, in milliseconds. */
const UNAVAILABLE_MS = 60_000

/** How long other transactions of Fillrate may keep the tombstones waiting, in milliseconds: much longer than any of them takes. */
const TOMBSTONE_WAIT_MS = 60_000

/** Commits the tombstones after every transaction that has read the list before. */
async function insertTombstones(db: Deps['db'], targets: readonly ForgetTarget[]): Promise<void> {
  await retryWhileUnavailable(
    () =>
      inTransaction(db, async (tx) => {
        await suppressions.lockExclusively(tx)
        await suppressions.insertSuppressions(tx, targets)
      }),
    { conflicts: Number.POSITIVE_INFINITY, giveUp: expiresAfter(TOMBSTONE_WAIT_MS) },
  )
}

/** The result of what a transaction would do. */
async function rollBack<Result>(db: Deps['db'], act: (tx: Tx) => Promise<Result>): Promise<Result> {
  const dryRun = new Error('a dry run')
  const done: Result[] = []
  await inTransaction(db, async (tx) => {
    done.push(await act(tx))
    throw dryRun
  }).catch((error: unknown) => {
    if (error !== dryRun) throw error
  })
  return done[0] as Result
}

/** Passes of an erasure. What another transaction has stored behind one is erased by the next. */
const MAX_PASSES = 5

/** Tables in which a company's domain may be that of a person's employer. */
const PERSON_TABLES: ReadonlySet<string> = new Set(
  'lookups deliveries changes skipped_cells rows jobs'.split(' '),
)

/** @param expand of each pass: what is stored of the subject by then */
async function erasePasses(
  runPart: RunPart,
  targets: readonly ForgetTarget[],
  passes: readonly ((named: readonly ForgetTarget[]) => Promise<Subject>)[],
): Promise<StoredReport> {
  const erased = {
    lookups: 0,
    records: 0,
    linked_lookups: 0,
    rows: 0,
    changes: 0,
    results: 0,
    bodies: 0,
    mentions: 0,
  }
  const rows: erase.RowName[] = []
  const all = await runPart(erase.listTextColumns)
  let [columns, remaining, named] = [all, [] as StoredReport['remaining'], targets]
  for (const expand of passes) {
    const subject = await expand(named)
    named = subject.targets
    columns = all.filter(({ table }) => !subject.isCompany || !PERSON_TABLES.has(table))
    const { rows: inPass, ...counts } = await erasePass(runPart, subject, columns)
    rows.push(...inPass)
    for (const [name, count] of Object.entries(counts)) erased[name as keyof typeof counts] += count
    remaining = await countRemaining(runPart, columns, subject.pattern)
    if (!remaining.some(erase.isErasedByMeaning)) break
  }
  return {
    erased: { ...erased, rows: rows.length },
    rows,
    searched: { tables: new Set(columns.map(({ table }) => table)).size, columns: columns.length },
    remaining,
  }
}

/**
 * Erases what is stored at one moment. The lookups, rows and cells of the subject go last and together:
 * they link its identifiers, by which the same command finds the rest if this one does not end.
 */
async function erasePass(
  runPart: RunPart,
  subject: Subject,
  columns: readonly erase.TextColumn[],
): Promise<Omit<StoredReport['erased'], 'rows'> & { readonly rows: readonly erase.RowName[] }> {
  const { ids, pattern, isCompany, linked } = subject
  const { results, bodies, mentions } = await eraseInDeliveries(runPart, subject)
  let redacted = mentions
  for (const column of columns.filter((column) => !erase.isErasedByMeaning(column)))
    redacted += await runPart((tx) => erase.redactColumn(tx, column, pattern, ids))
  const places: Partial<Record<erase.CellTable, string[]>> = {}
  for (const table of isCompany ? [] : erase.cellTables)
    places[table] = await runPart((tx) => erase.findCells(tx, table, pattern))
  return runPart(async (tx) => {
    const { lookups, records, ...erased } = await erase.eraseLookups(tx, ids, { rows: subject.rows })
    const cells = await erase.eraseCells(tx, places, pattern)
    return {
      lookups,
      records,
      linked_lookups: linked.lookups,
      changes: erased.changes + cells.changes,
      results,
      bodies,
      mentions: redacted + cells.mentions,
      rows: [...erased.rows, ...cells.rows],
    }
  })
}

async function countRemaining(
  runPart: RunPart,
  columns: readonly erase.TextColumn[],
  pattern: string,
): Promise<StoredReport['remaining']> {
  const remaining = []
  for (const column of columns) {
    const rows = await runPart((tx) => erase.countMatches(tx, column, pattern))
    if (rows > 0) remaining.push({ table: column.table, column: column.column, rows })
  }
  return remaining
}

/** Runs one part of the erasure, with all its SQL in one transaction. */
type RunPart = <T>(act: (tx: Tx) => Promise<T>) => Promise<T>

/** A person or a company as it is stored: all that the named identifiers lead to, at every service. */
interface Subject {
  /** The named identifiers, and the identifiers linked to them. */
  readonly targets: readonly ForgetTarget[]
  /** Matches each of them. */
  readonly pattern: string
  readonly isCompany: boolean
  readonly ids: readonly number[]
  readonly rows: readonly erase.RowName[]
  /** Lookups of other identifiers than the named ones, and how many identifiers these are. */
  readonly linked: { readonly lookups: number; readonly identifiers: number }
}

/**
 * Expands a subject by kind and key until nothing new is found: lookups of its identifiers at all services,
 * the rows that used them, the other lookups of these rows, and what their records give as their own
 * identifiers. What only a delivery says is no link: nothing has confirmed it. A source that left the
 * configuration counts as any other: its rows are stored.
 * @param findRows finds the rows of the user's tables whose present inputs have an identifier
 */
async function expandSubject(
  runPart: RunPart,
  named: readonly ForgetTarget[],
  findRows: (targets: readonly ForgetTarget[]) => Promise<readonly erase.RowName[]>,
): Promise<Subject> {
  const isCompany = named.every(({ kind }) => kind === 'domain')
  const targets: ForgetTarget[] = []
  const identifiers = new Map<string, Identifier>()
  const rows = new Map<string, erase.RowName>()
  const lookups = new Map<number, erase.LinkedLookup>()
  let namedIds: ReadonlySet<number> | null = null
  const addIdentifiers = (found: readonly Identifier[]): void => {
    for (const identifier of found) identifiers.set(identifierText(identifier), identifier)
  }
  const addRows = (found: readonly erase.RowName[]): void => {
    for (const row of found) rows.set(`${row.source}\n${row.key}`, row)
  }
  for (let fresh = named; fresh.length > 0;) {
    targets.push(...fresh)
    addIdentifiers(fresh)
    addRows(await findRows(fresh))
    let ids = await findNaming(runPart, fresh, isCompany)
    namedIds ??= new Set(ids)
    for (let size = -1; size !== lookups.size + rows.size + identifiers.size;) {
      size = lookups.size + rows.size + identifiers.size
      const known = { ids, known: [...lookups.keys()] }
      const linked = await runPart((tx) =>
        erase.findLinked(tx, { ...known, rows: [...rows.values()], identifiers: [...identifiers.values()] }),
      )
      addRows(linked.rows)
      for (const { id, kind, key, record } of linked.lookups) {
        lookups.set(id, { id, kind, key })
        const forms = kind === 'name_company' ? listNameKeys(key) : [key]
        addIdentifiers(forms.map((form) => ({ kind, key: form })))
        addIdentifiers(findSubject(endpointOf(kind), record))
      }
      ids = [...lookups.keys()]
    }
    const isSearched = createTargetTest(targets)
    fresh = [...identifiers.values()].filter((identifier) => !isSearched(identifier)).map(toForgetTarget)
  }
  const linked = [...lookups.values()].filter(({ id }) => namedIds?.has(id) !== true)
  return {
    targets,
    pattern: joinPatterns(targets),
    isCompany,
    ids: [...lookups.keys()],
    rows: [...rows.values()],
    linked: { lookups: linked.length, identifiers: new Set(linked.map(identifierText)).size },
  }
}

const joinPatterns = (targets: readonly ForgetTarget[]): string =>
  targets.map(({ pattern }) => pattern).join('|')

/** Finds the lookups of identifiers, and those whose record is about one of them. */
async function findNaming(
  runPart: RunPart,
  targets: readonly ForgetTarget[],
  isCompany: boolean,
): Promise<number[]> {
  const isTarget = createTargetTest(targets)
  const pattern = joinPatterns(targets)
  const found: number[] = []
  for (let after: number | null = 0; after !== null;) {
    const from: number = after
    const page = await runPart((tx) =>
      erase.findLookups(tx, targets, { inputs: isCompany ? NO_TEXT : pattern, pattern, after: from }),
    )
    for (const { id, kind, isRequested, record } of page.lookups)
      if (isRequested || findSubject(endpointOf(kind), record).some(isTarget)) found.push(id)
    after = page.next
  }
  return found
}

const ERASED_BODY = JSON.stringify({ erased: 'unparseable, and contained the erased identifier' })

/** Deliveries that are locked in one transaction. */
const DELIVERIES_PER_TRANSACTION = 20

const createTargetTest = (targets: readonly Identifier[]): ((identifier: Identifier) => boolean) => {
  const keys = new Set(targets.map(identifierText))
  return (identifier) => keys.has(identifierText(identifier))
}

/**
 * Removes the results about the subject from deliveries, and mentions of it from the other results. What
 * cannot be read, and is of a job of the subject or holds an identifier, is replaced whole.
 */
async function eraseInDeliveries(
  runPart: RunPart,
  subject: Subject,
): Promise<{ results: number; bodies: number; mentions: number }> {
  // In a person's result, a company's domain is that of the employer.
  const pattern = subject.isCompany ? NO_TEXT : subject.pattern
  const found = await runPart(async (tx) =>
    erase.findDeliveries(tx, await erase.findJobsOfLookups(tx, subject.ids), pattern),
  )
  const total = { results: 0, bodies: 0, mentions: 0 }
  for (let n = 0; n < found.length; n += DELIVERIES_PER_TRANSACTION) {
    const batch = found.slice(n, n + DELIVERIES_PER_TRANSACTION)
    const counts = await runPart((tx) => eraseInBatch(tx, batch, subject, new RegExp(pattern, 'giu')))
    for (const name of ['results', 'bodies', 'mentions'] as const) total[name] += counts[name]
  }
  return total
}

async function eraseInBatch(tx: Tx, batch: readonly string[], { ids, targets }: Subject, named: RegExp) {
  const deliveries = await erase.lockDeliveries(tx, batch)
  const bodies = deliveries.flatMap(({ body, ...delivery }) => (body === null ? [] : [{ ...delivery, body }]))
  const isTarget = createTargetTest(targets)
  const results = findResultSubjects(bodies, await lockCandidateJobs(tx, deliveries))
  const redacted = results.flatMap((result): RedactedResult[] => {
    const isSubject =
      [result.member, ...result.mayBe].some((member) => member !== null && ids.includes(member.id)) ||
      result.identifiers.some(isTarget)
    if (isSubject) return [{ ...result, redacted: null }]
    if (JSON.stringify(result.raw).search(named) === -1) return []
    return [{ ...result, redacted: redactStrings(result.raw, (text) => redactText(text, named)) }]
  })
  await redactResults(tx, bodies, redacted)
  const unreadable = deliveries.filter(({ body }) => body === null)
  await redactDeliveries(
    tx,
    unreadable.map(({ id }) => ({ id, body: ERASED_BODY })),
  )
  const removed = redacted.filter((result) => result.redacted === null).length
  return { results: removed, bodies: unreadable.length, mentions: redacted.length - removed }
}

/** A value that is the identifier becomes null: a cell may be filled with it. */
const redactText = (text: string, named: RegExp): string | null => {
  const rest = text.replaceAll(named, ERASED_TEXT)
  return rest !== text && !/\s/.test(text.trim()) ? null : rest
}
