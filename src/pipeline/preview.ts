import * as dryRows from '../store/stored-records.ts'
import type { Source } from '../sources/source.ts'
import { type WriteResult, previewWrites } from '../sources/write/write.ts'
import type { CellCounts } from '../store/rows.ts'
import type { AnsweredRow, FinishedRow } from '../store/write-back-queue.ts'
import { type Tx, inTransaction } from '../store/transaction.ts'
import { partitionAnswered, toFinishedRow } from './row-results.ts'
import { ROW_STATES, type RowState } from '../domain/row.ts'
import type { Deps } from './deps.ts'

/** One row before and after a write, as far as it can be told without writing: before any trigger. */
export interface DiffRow {
  readonly source: string
  readonly key: string
  /** 0..1; null where the record has none. */
  readonly confidence: number | null
  readonly cells: readonly DiffCell[]
  /** Columns that are set beside them (`touch`). */
  readonly touched: readonly DiffCell[]
}

/** Null: nothing there. */
export interface DiffCell {
  readonly column: string
  readonly before: unknown
  readonly after: unknown
}

/** What a rehearsed write would change; null where nothing. Pure. */
export function toDiffRow(source: Source, result: WriteResult, confidence: number | null): DiffRow | null {
  const { before, after } = result
  if (after === null) return null
  const cell = ({ column }: { readonly column: string }): DiffCell[] =>
    Object.hasOwn(after, column) ? [{ column, before: before?.[column] ?? null, after: after[column] }] : []
  return {
    source: source.name,
    key: result.key,
    confidence,
    cells: source.outputs.flatMap(cell),
    touched: source.touches.flatMap(cell),
  }
}

/** As many of each list as of the others, as far as they go, and `most` at the most. Pure. */
export function sampleEvenly<Item>(lists: readonly (readonly Item[])[], most: number): Item[] {
  const shares = new Map<readonly Item[], number>()
  let left = most
  const shortestFirst = lists.toSorted((a, b) => a.length - b.length)
  for (const [n, list] of shortestFirst.entries()) {
    const share = Math.min(list.length, Math.floor(left / (lists.length - n)))
    shares.set(list, share)
    left -= share
  }
  return lists.flatMap((list) => list.slice(0, shares.get(list)))
}

export interface PreviewedRow {
  /** What would become of the row. */
  readonly row: FinishedRow
  /** What would be written; null where nothing. */
  readonly diff: DiffRow | null
}

/**
 * What the write back would make of answered rows, by its own steps. Locks nothing and writes nothing; what only a
 * write can find (a check, a unique value, a trigger) it does not find.
 */
export async function previewWriteBack(
  tx: Tx,
  source: Source,
  answered: readonly AnsweredRow[],
): Promise<PreviewedRow[]> {
  const { settled, fitted } = partitionAnswered(source, answered)
  const results = await previewWrites(
    tx,
    source,
    fitted.map((one) => one.write),
  )
  const written = fitted.map((one, n) => {
    const result = results[n]
    if (!result) throw new Error(`the rehearsal of source ${source.name} told nothing of one of its rows`)
    return { row: toFinishedRow(one, result), diff: toDiffRow(source, result, one.row.confidence) }
  })
  return [...settled.map((row) => ({ row, diff: null })), ...written]
}

/** Rows of one statement. */
const PREVIEW_BATCH_SIZE = 500

/** What a run would write. */
export interface DryRunReport {
  /** Cells by column, in the order of the configuration; columns of `touch` left aside. */
  readonly columns: ReadonlyArray<{
    readonly source: string
    readonly column: string
    readonly written: number
  }>
  /** Some of the rows that would be written, from each source alike. */
  readonly sample: readonly DiffRow[]
}

/** A dry run's answered rows, by what would become of them. */
export interface Preview extends DryRunReport {
  readonly states: Readonly<Record<RowState, number>>
  readonly cells: CellCounts
}

const NO_STATES = Object.fromEntries(ROW_STATES.map((state) => [state, 0])) as Record<RowState, number>

/** Of a dry run that ended before its time: its rows wait. */
export const EMPTY_PREVIEW: Preview = {
  states: NO_STATES,
  cells: { written: 0, protected: 0, skipped: 0 },
  columns: [],
  sample: [],
}

/**
 * Rehearses the writes of a dry run's answered rows, in batches. The rows stay as they are: the next run that writes
 * takes them over, and writes them from the stored records.
 * @param options.sample rows to keep at the most
 */
export async function previewRun(
  deps: Pick<Deps, 'db' | 'rules'>,
  run: number,
  options: { readonly sources: readonly Source[]; readonly sample: number; readonly signal: AbortSignal },
): Promise<Preview> {
  const states = { ...NO_STATES }
  const cells = { written: 0, protected: 0, skipped: 0 }
  const columns: { source: string; column: string; written: number }[] = []
  const samples: DiffRow[][] = []
  for (const source of options.sources) {
    const counts = new Map(
      source.outputs.map(({ column }) => [column, { source: source.name, column, written: 0 }]),
    )
    const sample: DiffRow[] = []
    for await (const { row, diff } of previewRows(deps, source, run, options.signal)) {
      states[row.state]++
      for (const count of ['written', 'protected', 'skipped'] as const) cells[count] += row.cells[count]
      for (const { column } of diff?.cells ?? []) {
        const count = counts.get(column)
        if (count) count.written++
      }
      if (diff !== null && sample.length < options.sample) sample.push(diff)
    }
    columns.push(...counts.values())
    samples.push(sample)
  }
  return { states, cells, columns, sample: sampleEvenly(samples, options.sample) }
}

async function* previewRows(
  deps: Pick<Deps, 'db' | 'rules'>,
  source: Source,
  run: number,
  signal: AbortSignal,
): AsyncGenerator<PreviewedRow> {
  let after: string | null = ''
  while (after !== null && !signal.aborted) {
    const from: string = after
    const { rows, next } = await inTransaction(
      deps.db,
      async (tx) => {
        const answered = await dryRows.listAnsweredDryRows(tx, source.name, run, from, PREVIEW_BATCH_SIZE)
        const last = answered.length < PREVIEW_BATCH_SIZE ? null : (answered.at(-1)?.key ?? null)
        return { rows: await previewWriteBack(tx, source, answered), next: last }
      },
      deps.rules.sourceTimeoutMs,
    )
    yield* rows
    after = next
  }
}
