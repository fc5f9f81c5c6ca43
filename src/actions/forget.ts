import { describeError, FillrateError } from '../util/error-text.ts'
import type { Deps } from '../pipeline/deps.ts'
import type { Source } from '../sources/source-model.ts'
import { expiresAfter, retryWhileUnavailable } from '../store/connectivity.ts'
import * as erase from '../store/erase.ts'
import * as search from '../store/erase-mentions.ts'
import * as suppressions from '../store/suppressions.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'
import { eraseInDeliveries, expandSubject, type RunPart, type Subject } from './forget-subject.ts'
import { type ForgetTarget, findRowsByInputs, type UnsearchedSource } from './forget-target.ts'

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
 * Erases everything stored about a person or company, and suppresses future lookups. The tombstones are inserted
 * first, in their own transaction: from then on nothing new is picked or stored. Idempotent.
 *
 * Each part is its own transaction, and the search takes no locks: searching large tables takes minutes, which no
 * pick or write-back may wait for. If it fails or is killed, the next call erases what is left. A dry run is a single transaction, because it is rolled
 * back; it searches first and locks last.
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
      for (const one of found.unreadable) unreadable.set(one.source, one)
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
  'lookups deliveries changes skipped_cells rows due_rows jobs'.split(' '),
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
  const all = await runPart(search.listTextColumns)
  let [columns, remaining, named] = [all, [] as StoredReport['remaining'], targets]
  for (const expand of passes) {
    const subject = await expand(named)
    named = subject.targets
    columns = all.filter(({ table }) => !subject.isCompany || !PERSON_TABLES.has(table))
    const { rows: inPass, ...counts } = await erasePass(runPart, subject, columns)
    rows.push(...inPass)
    for (const [name, count] of Object.entries(counts)) erased[name as keyof typeof counts] += count
    remaining = await countRemaining(runPart, columns, subject.pattern)
    if (!remaining.some(search.isErasedByMeaning)) break
  }
  return {
    erased: { ...erased, rows: rows.length },
    rows,
    searched: { tables: new Set(columns.map(({ table }) => table)).size, columns: columns.length },
    remaining,
  }
}

/**
 * Erases what is stored at one moment. The lookups, rows and cells of the subject go last and together: they
 * link its identifiers, by which the same command finds the rest if this one does not end.
 */
async function erasePass(
  runPart: RunPart,
  subject: Subject,
  columns: readonly search.TextColumn[],
): Promise<Omit<StoredReport['erased'], 'rows'> & { readonly rows: readonly erase.RowName[] }> {
  const { ids, pattern, isCompany, linked } = subject
  const { results, bodies, mentions } = await eraseInDeliveries(runPart, subject)
  let redacted = mentions
  for (const column of columns.filter((one) => !search.isErasedByMeaning(one)))
    redacted += await runPart((tx) => search.redactColumn(tx, column, pattern, ids))
  const places: Partial<Record<search.CellTable, string[]>> = {}
  for (const table of isCompany ? [] : search.cellTables)
    places[table] = await runPart((tx) => search.findCells(tx, table, pattern))
  return runPart(async (tx) => {
    const { lookups, records, ...erased } = await erase.eraseLookups(tx, ids, { rows: subject.rows })
    const cells = await search.eraseCells(tx, places, pattern)
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
  columns: readonly search.TextColumn[],
  pattern: string,
): Promise<StoredReport['remaining']> {
  const remaining = []
  for (const column of columns) {
    const rows = await runPart((tx) => search.countMatches(tx, column, pattern))
    if (rows > 0) remaining.push({ table: column.table, column: column.column, rows })
  }
  return remaining
}
