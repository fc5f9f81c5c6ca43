import { ROW_STATES, type RowState } from '../domain/row.ts'
import { SkippedTally, type SkippedGroup } from '../domain/skipped-cell.ts'
import type { Source } from '../sources/source-model.ts'
import type { WriteResult } from '../sources/write/write.ts'
import type { CellCounts } from '../store/rows.ts'
import type { Tx } from '../store/transaction.ts'
import type { AnsweredRow, FinishedRow } from '../store/write-back-queue.ts'
import { partitionAnswered, toFinishedRow } from './row-results.ts'
import { writeInTurn } from './write-back.ts'

/** One row before and after a write, as far as that is known without writing: before any trigger. */
export interface DiffRow {
  readonly source: string
  readonly key: string
  /** 0..1; null if the record has none. */
  readonly confidence: number | null
  readonly cells: readonly DiffCell[]
}

/** Null: no value. */
interface DiffCell {
  readonly column: string
  readonly before: unknown
  readonly after: unknown
  /** The service whose record has the value. Absent: the configuration names none. */
  readonly service?: string
}

/** Converts a previewed write to the row's difference; null if nothing would change. Pure. */
function toDiffRow(source: Source, result: WriteResult, confidence: number | null): DiffRow | null {
  const { before, after } = result
  if (after === null) return null
  const { service } = source.mapping.turn
  const by = service === null ? {} : { service }
  const cells = source.outputs.flatMap(({ column }): DiffCell[] =>
    Object.hasOwn(after, column)
      ? [{ column, before: before?.[column] ?? null, after: after[column], ...by }]
      : [],
  )
  return { source: source.name, key: result.key, confidence, cells }
}

/** What one service after another would change in a row. */
export const mergeDiffs = (before: DiffRow | null, diff: DiffRow | null): DiffRow | null =>
  before === null || diff === null ? (before ?? diff) : { ...before, cells: [...before.cells, ...diff.cells] }

export interface PreviewedRow {
  /** The state that the row would reach. */
  readonly row: FinishedRow
  /** What became of the write; null: there is no record to write. */
  readonly outcome: WriteResult['outcome'] | null
  /** What would be written; null if nothing. */
  readonly diff: DiffRow | null
}

/**
 * Computes what the write-back would do with answered rows, by its own code. Takes no locks and writes nothing, so it
 * cannot detect errors that only a write raises (check constraint, unique value, trigger).
 * @param isFilled a cell that services before this one would have filled
 */
export async function previewWriteBack(
  tx: Tx,
  source: Source,
  answered: readonly AnsweredRow[],
  isFilled: (key: string, column: string) => boolean,
): Promise<PreviewedRow[]> {
  const { finished, fitted } = partitionAnswered(source, answered)
  const open = fitted.map((one) => {
    const { values, misfits = [] } = one.write
    const filled = [...Object.keys(values), ...misfits].filter((column) => isFilled(one.row.key, column))
    const left = Object.entries(values).filter(([column]) => !filled.includes(column))
    return { filled, one: { ...one, write: { ...one.write, values: Object.fromEntries(left) } } }
  })
  const writes = open.map(({ one }) => one.write)
  const written = await writeInTurn(tx, source, writes, { preview: true })
  const results = new Map(written.map((result) => [result.key, result]))
  const previewed = open.map(({ one, filled }) => {
    const result = results.get(one.row.key)
    if (!result)
      throw new Error(`the preview of source ${source.name} returned no result for one of its rows`)
    const protectedColumns = [...new Set([...result.protectedColumns, ...filled])]
    const row = toFinishedRow(source, one, { ...result, protectedColumns })
    return { row, outcome: result.outcome, diff: toDiffRow(source, result, one.row.confidence) }
  })
  return [...finished.map((row) => ({ row, outcome: null, diff: null })), ...previewed]
}

/** What a run would write. */
export interface DryRunReport {
  /** Cells by column, in configuration order, without `touch` columns. */
  readonly columns: ReadonlyArray<{
    readonly source: string
    readonly column: string
    readonly written: number
  }>
  /** Some of the rows that would be written, at random, evenly from each source. */
  readonly sample: readonly DiffRow[]
}

/** The rows of a dry run, by the state they would reach. */
export interface Preview extends DryRunReport {
  readonly states: Readonly<Record<RowState, number>>
  readonly cells: CellCounts
  /** By service, and how many rows would end there, or wait. */
  readonly cellsBy: ReadonlyMap<number, CellCounts>
  readonly rows: ReadonlyMap<number, number>
  readonly skipped: readonly SkippedGroup[]
  /** The lookups that its rows need. */
  readonly lookups: readonly number[]
}

const NO_CELLS: CellCounts = { written: 0, protected: 0, skipped: 0 }

const addCells = (one: CellCounts, other: CellCounts): CellCounts => ({
  written: one.written + other.written,
  protected: one.protected + other.protected,
  skipped: one.skipped + other.skipped,
})

/** Counts what a dry run would write. */
export class PreviewTally {
  readonly #states = Object.fromEntries(ROW_STATES.map((state) => [state, 0])) as Record<RowState, number>
  readonly #rows = new Map<number, number>()
  readonly #cells = new Map<number, CellCounts>()
  readonly #skipped = new SkippedTally()
  readonly #columns = new Map<string, { source: string; column: string; written: number }>()
  readonly #samples = new Map<string, RandomSample<DiffRow>>()
  readonly #size: number

  /** @param size rows of the sample, as many of each source */
  constructor(sources: readonly Source[], size: number, random: () => number) {
    this.#size = size
    const names = new Set(sources.map(({ name }) => name))
    for (const { name: source, outputs } of sources) {
      for (const { column } of outputs)
        this.#columns.set(JSON.stringify([source, column]), { source, column, written: 0 })
      this.#samples.set(source, new RandomSample(Math.ceil(size / names.size), random))
    }
  }

  /** What a service would write to a row. */
  addWrite({ name }: Source, service: number, { row, diff }: Pick<PreviewedRow, 'row' | 'diff'>): void {
    this.#cells.set(service, addCells(this.#cells.get(service) ?? NO_CELLS, row.cells))
    this.#skipped.add(name, row.skipped)
    for (const { column } of diff?.cells ?? []) {
      const count = this.#columns.get(JSON.stringify([name, column]))
      if (count) count.written++
    }
  }

  /** A row that would end at a service, or waits for it. @param diff what all services would write to it */
  addRow({ name }: Source, service: number, state: RowState, diff: DiffRow | null): void {
    this.#states[state]++
    this.#rows.set(service, (this.#rows.get(service) ?? 0) + 1)
    if (diff !== null) this.addSample(name, diff)
  }

  /** What would be written to a row. */
  addSample(source: string, diff: DiffRow): void {
    this.#samples.get(source)?.add(diff)
  }

  report(lookups: readonly number[]): Preview {
    return {
      states: this.#states,
      cells: [...this.#cells.values()].reduce(addCells, NO_CELLS),
      cellsBy: this.#cells,
      rows: this.#rows,
      skipped: this.#skipped.groups(),
      columns: [...this.#columns.values()],
      sample: [...this.#samples.values()].flatMap(({ items }) => items).slice(0, this.#size),
      lookups,
    }
  }
}

/**
 * Chooses some of a stream of items at random, each with the same chance (a reservoir). The first ones would be no sample: rows come in
 * key order, and old rows differ from new ones.
 */
export class RandomSample<Item> {
  readonly #max: number
  readonly #random: () => number
  readonly items: Item[] = []
  #count = 0

  /**
   * @param max items to choose
   * @param random 0..1
   */
  constructor(max: number, random: () => number) {
    this.#max = max
    this.#random = random
  }

  add(item: Item): void {
    const place = this.#count < this.#max ? this.#count : Math.floor(this.#random() * (this.#count + 1))
    if (place < this.#max) this.items[place] = item
    this.#count++
  }
}
