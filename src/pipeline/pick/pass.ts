import type { RunSpec } from '../../domain/run.ts'
import type { Source } from '../../sources/source-model.ts'
import { BatchSize } from '../batch-size.ts'
import type { RunBudget } from './budget.ts'
import type { RunService } from '../../store/pending-lookups.ts'

/** Rows of the first page of a run: enough calls for the slow start, which then does not wait for a whole page. */
const FIRST_PAGE = 250
/** Rows of the second page, and of a page of Fillrate's own lists. */
export const PAGE_SIZE = 1_000
/**
 * Rows taken at most per tick, and read where most of them are to be picked. A page costs twelve statements whatever it
 * holds, a quarter of what a run in bulk sent with pages of 1,000; one of 4,000 keeps its lookups locked for 0.2 s.
 */
export const MAX_PICK_PAGE = 4_000
/**
 * Rows read at most per tick, where next to none is to be picked. A page of 1,000 finished rows spends most of its time on
 * the round trips; a larger one than this gains nothing, and holds its snapshot longer.
 */
export const MAX_SCAN_PAGE = 10_000
export const FEW_CANDIDATES = 100

/** Rows of the page after one of `rows`, of which `candidates` were to be picked. Pure. */
export const nextScanPage = (rows: number, candidates: number): number =>
  Math.min(
    candidates > FEW_CANDIDATES ? MAX_PICK_PAGE : MAX_SCAN_PAGE,
    rows === FIRST_PAGE ? PAGE_SIZE : rows * 2,
  )

/** The picking run. */
export interface PickContext {
  readonly id: number
  readonly budget: RunBudget
  /** The configured service. */
  readonly service: number
}

/** Whose lookups the run requests. */
export const toRunService = ({ id, service }: Pick<PickContext, 'id' | 'service'>): RunService => ({
  run: id,
  service,
})

export interface PickOptions extends Pick<RunSpec, 'limit' | 'where'> {
  /** Reads nothing of the table beyond the rows that Fillrate's own lists name. */
  readonly onlyListed?: boolean
}

/**
 * One pass over one source, by phases.
 *
 *     requeued ──▶ abandoned ──▶ scan ──▶ done
 *
 * `requeued`: the run's own rows that are to be picked again, which counts no row twice. `abandoned`: rows that dead runs left
 * waiting. `scan`: the table.
 */
export interface PickPass {
  readonly source: Source
  phase: 'requeued' | 'abandoned' | 'scan' | 'done'
  /** Rows per page: fewer if reading or claiming them takes too long. */
  readonly pageSize: BatchSize
  /** The last key read of the phases before `scan`. */
  after: string | null
  readonly scan: KeyRangeScan
  readonly readAhead: ReadAhead
  /** The source's share of the budget is used up: the pass continues with what other sources leave. */
  isShareUsedUp: boolean
  /** No answer leaves more of the budget: the rest is read for rows that cost nothing. Until then the pass stops at the first that costs. */
  isSpent: boolean
  /** Rows that the budget could not pay: they must be found again although they do not change. */
  skippedInPhase: number
  /** Of these, rows that count towards the limit. */
  skippedWithinLimit: number
  /** Rows that the table has and Fillrate knew before, as far as it was read. NaN: not counted, because a page is read again. */
  known: number
}

export const createPass = (
  source: Source,
  phase: PickPass['phase'] = 'abandoned',
  scan = new KeyRangeScan(),
): PickPass => ({
  source,
  phase,
  pageSize: new BatchSize(MAX_SCAN_PAGE),
  after: null,
  scan,
  readAhead: new ReadAhead(),
  isShareUsedUp: false,
  isSpent: false,
  skippedInPhase: 0,
  skippedWithinLimit: 0,
  known: 0,
})

/** Keys after `after`, up to and including `until`; null: without a bound. */
interface KeyRange {
  readonly after: string | null
  readonly until: string | null
}

/**
 * The key ranges of a table, read in rounds of one page each. Pages double from round to round: up to `MAX_PICK_PAGE`,
 * and to `MAX_SCAN_PAGE` while few rows are to be picked. Ranges that start at random keys make the rows read first a
 * sample of the table, which rows in key order are not, because old rows differ from new ones.
 */
export class KeyRangeScan {
  #ranges: KeyRange[]
  #range = 0
  #rows: number
  /** The most rows to be picked in a page of this round. */
  #candidates = 0

  /**
   * @param splits keys in key order at which the table is split
   * @param rows rows of the first pages
   * @param random 0..1; shuffles the ranges: a scan that ends within a round would otherwise have read more of the first keys
   */
  constructor(splits: readonly string[] = [], rows = FIRST_PAGE, random: () => number = Math.random) {
    this.#ranges = [null, ...splits]
      .map((after, n) => ({ order: random(), range: { after, until: splits[n] ?? null } }))
      .sort((a, b) => a.order - b.order)
      .map(({ range }) => range)
    this.#rows = rows
  }

  /** Where the next page starts and ends at the latest. */
  get range(): KeyRange {
    return this.#ranges[this.#range] ?? { after: null, until: null }
  }

  /** Rows of the next page. */
  get rows(): number {
    return this.#rows
  }

  get isDone(): boolean {
    return this.#ranges.length === 0
  }

  /**
   * Records that a page was read.
   * @param last its last key; null: the range was read to its end
   * @param candidates rows of it that were to be picked
   */
  advance(last: string | null, candidates: number): void {
    this.#candidates = Math.max(this.#candidates, candidates)
    const range = this.#ranges[this.#range]
    if (range === undefined) return
    if (last === null) this.#ranges.splice(this.#range, 1)
    else this.#ranges[this.#range++] = { ...range, after: last }
    if (this.#range < this.#ranges.length) return
    this.#range = 0
    this.#rows = nextScanPage(this.#rows, this.#candidates)
    this.#candidates = 0
  }
}

/** Rows read after the budget's end in any case, and for each row found there that costs nothing. */
const READ_AHEAD_ROWS = 10_000
const READ_AHEAD_ROWS_PER_FREE_ROW = 100

/**
 * How far a source is read once the budget cannot pay a lookup any more. Rows whose lookup is stored cost nothing, so
 * reading on is worth it where there are many of them; a table of millions is not read for a few.
 */
export class ReadAhead {
  #read = 0
  #free = 0

  /** @param free rows with a stored or shared lookup */
  add(read: number, free: number): void {
    this.#read += read
    this.#free += free
  }

  get isOver(): boolean {
    return this.#read >= READ_AHEAD_ROWS + READ_AHEAD_ROWS_PER_FREE_ROW * this.#free
  }
}
