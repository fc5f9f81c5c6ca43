import { describeError, FillrateError } from '../util/error-text.ts'
import { describeHeldLinks, findSubject, identifierText, isLinkedEraseHeld } from '../domain/subject.ts'
import { endpointOf } from '../domain/identifiers/kind.ts'
import type { Deps } from '../pipeline/deps.ts'
import type { Source } from '../sources/source-model.ts'
import { expiresAfter, retryWhileUnavailable } from '../store/connectivity.ts'
import * as erase from '../store/erase.ts'
import * as search from '../store/erase-mentions.ts'
import * as suppressions from '../store/suppressions.ts'
import { inTransaction } from '../store/transaction.ts'
import { NO_TEXT } from '../pipeline/erasure.ts'
import { eraseInDeliveries, type RunPart } from './erase-deliveries.ts'
import { type ForgetTarget, findRowsByInputs, type UnsearchedSource } from './forget-target.ts'

/** What was erased. It holds no personal data, so it can be kept as evidence. */
export interface ForgetReport {
  readonly dry_run: boolean
  /** The tombstones: SHA-256 of kind and identifier. */
  readonly tombstones: readonly { readonly kind: string; readonly hash: string }[]
  readonly erased: {
    readonly lookups: number
    readonly records: number
    /** Those of the lookups that are of other identifiers: the rows that used them link them to the subject. */
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

type StoredReport = Omit<ForgetReport, 'searched' | 'unsearched'> & {
  readonly searched: Omit<ForgetReport['searched'], 'sources'>
}

/** Rolls back a dry run, carrying its report. */
class DryRunRollback extends Error {
  readonly report: StoredReport
  constructor(report: StoredReport) {
    super('a dry run')
    this.report = report
  }
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
  const { rows, unreadable } = await findRowsByInputs(db, sources, targets)
  if (!options.dryRun) {
    const { linked } = await findStored((act) => inTransaction(db, act), targets, rows)
    if (isLinkedEraseHeld(linked) && options.includeLinked !== true) throw new LinkedEraseError(linked)
    await insertTombstones(db, targets)
  }
  const runPart: RunPart = (act) =>
    retryWhileUnavailable(() => inTransaction(db, act), {
      giveUp: expiresAfter(UNAVAILABLE_MS),
    })
  const report = options.dryRun
    ? await previewForget(db, targets, rows)
    : await eraseAll(runPart, targets, rows, false).catch((error: unknown) => {
        throw new ForgetUnfinishedError(error)
      })
  log.debug(
    { event: 'data_erased', erased: report.erased, searched: report.searched },
    options.dryRun ? 'would be erased' : 'erased',
  )
  const searched = sources
    .map(({ name }) => name)
    .filter((name) => !unreadable.some((one) => one.source === name))
  return {
    ...report,
    searched: { ...report.searched, sources: searched },
    unsearched: [...unopened, ...unreadable],
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

/** The subject is linked to more lookups of other identifiers than one person or company has. */
export class LinkedEraseError extends FillrateError {
  override readonly name = 'LinkedEraseError'
  constructor(linkedLookups: number) {
    super(describeHeldLinks(linkedLookups))
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

interface StoredSubject {
  /** Lookups of the subject, and lookups that are linked by its rows. */
  readonly ids: readonly number[]
  readonly named: readonly erase.RowName[]
  /** How many lookups are linked alone. */
  readonly linked: number
}

/** Finds the lookups of a subject: those of its identifiers, those whose record is about it, and those of its rows. */
async function findStored(
  runPart: RunPart,
  targets: readonly ForgetTarget[],
  named: readonly erase.RowName[],
): Promise<StoredSubject> {
  const found = new Set<number>()
  for (const target of targets)
    for (let after: number | null = 0; after !== null;) {
      const from: number = after
      const page = await runPart((tx) => erase.findLookups(tx, target.kind, target.key, target.pattern, from))
      for (const lookup of page.lookups) if (isAbout(lookup, target)) found.add(lookup.id)
      after = page.next
    }
  const ids = await runPart((tx) => erase.expandByRows(tx, [...found], named))
  return { ids, named, linked: ids.length - found.size }
}

const isAbout = ({ kind, isRequested, record }: erase.NamingLookup, target: ForgetTarget): boolean =>
  isRequested ||
  findSubject(endpointOf(kind), record).some((one) => identifierText(one) === identifierText(target))

function previewForget(
  db: Deps['db'],
  targets: readonly ForgetTarget[],
  rows: readonly erase.RowName[],
): Promise<StoredReport> {
  return inTransaction(db, async (tx) => {
    throw new DryRunRollback(await eraseAll((act) => act(tx), targets, rows, true))
  }).catch((error: unknown) => {
    if (error instanceof DryRunRollback) return error.report
    throw error
  })
}

/** Passes of an erasure. What another transaction has stored behind one is erased by the next. */
const MAX_PASSES = 5

async function eraseAll(
  runPart: RunPart,
  targets: readonly ForgetTarget[],
  rows: readonly erase.RowName[],
  dryRun: boolean,
): Promise<StoredReport> {
  const pattern = targets.map((target) => target.pattern).join('|')
  // A company's name in a person's record belongs to that person, who is erased by an identifier of their own.
  const isCompany = targets.every((target) => target.kind === 'domain')
  const columns = (await runPart(search.listTextColumns)).filter(
    (column) => !isCompany || !PERSON_TABLES.has(column.table),
  )
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
  const erasedRows: erase.RowName[] = []
  let remaining: StoredReport['remaining'] = []
  for (let pass = 1; pass <= MAX_PASSES; pass++) {
    const { rows: named, ...counts } = await erasePass(runPart, {
      targets,
      rows,
      pattern,
      columns,
      isCompany,
    })
    erasedRows.push(...named)
    for (const [name, count] of Object.entries(counts)) erased[name as keyof typeof counts] += count
    remaining = await countRemaining(runPart, columns, pattern)
    if (!remaining.some(search.isErasedByMeaning)) break
  }
  erased.rows = erasedRows.length
  return {
    dry_run: dryRun,
    tombstones: targets.map(({ kind, key }) => ({ kind, hash: suppressions.suppressionHash(kind, key) })),
    erased,
    rows: erasedRows,
    searched: { tables: new Set(columns.map((column) => column.table)).size, columns: columns.length },
    remaining,
  }
}

/** Erases what is stored at one moment: by its meaning first, then mentions in any other text. */
async function erasePass(
  runPart: RunPart,
  {
    targets,
    rows,
    pattern,
    columns,
    isCompany,
  }: {
    readonly targets: readonly ForgetTarget[]
    readonly rows: readonly erase.RowName[]
    readonly pattern: string
    readonly columns: readonly search.TextColumn[]
    readonly isCompany: boolean
  },
): Promise<Omit<StoredReport['erased'], 'rows'> & { readonly rows: readonly erase.RowName[] }> {
  const { ids, named, linked } = await findStored(runPart, targets, rows)
  const inDeliveries = await eraseInDeliveries(runPart, ids, targets, isCompany ? NO_TEXT : pattern)
  const erased = await runPart((tx) => erase.eraseLookups(tx, ids, { rows: named }))
  const cells = isCompany ? { rows: [], changes: 0, mentions: 0 } : await eraseCells(runPart, pattern)
  let mentions = inDeliveries.mentions + cells.mentions
  for (const column of columns.filter((one) => !search.isErasedByMeaning(one))) {
    const places = await runPart((tx) => search.findMatches(tx, column, pattern))
    mentions += await runPart((tx) => search.redactColumn(tx, column, pattern, places))
  }
  return {
    lookups: erased.lookups,
    records: erased.records,
    linked_lookups: linked,
    changes: erased.changes + cells.changes,
    results: inDeliveries.results,
    bodies: inDeliveries.bodies,
    mentions,
    rows: [...erased.rows, ...cells.rows],
  }
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

async function eraseCells(runPart: RunPart, pattern: string): ReturnType<typeof search.eraseCells> {
  const places: Partial<Record<search.CellTable, string[]>> = {}
  for (const table of search.cellTables)
    places[table] = await runPart((tx) => search.findCells(tx, table, pattern))
  return runPart((tx) => search.eraseCells(tx, places, pattern))
}
