import { ROW_STATES, type RowState } from '../domain/row.ts'
import { mergeSkippedGroups, SkippedTally, type SkippedGroup } from '../domain/skipped-cell.ts'
import type { Source } from '../sources/source-model.ts'
import { writeBatch, type WriteResult } from '../sources/write/write.ts'
import type { RunService } from '../store/pending-lookups.ts'
import type { CellCounts } from '../store/rows.ts'
import * as dryRows from '../store/stored-records.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'
import type { AnsweredRow, FinishedRow } from '../store/write-back-queue.ts'
import type { Deps } from './deps.ts'
import { RandomSample, sampleEvenly } from './random-sample.ts'
import { partitionAnswered, toFinishedRow } from './row-results.ts'

/** One row before and after a write, as far as that is known without writing: before any trigger. */
export interface DiffRow {
  readonly source: string
  readonly key: string
  /** 0..1; null if the record has none. */
  readonly confidence: number | null
  readonly cells: readonly DiffCell[]
  /** Columns set by `touch`. */
  readonly touched: readonly DiffCell[]
}

/** Null: no value. */
export interface DiffCell {
  readonly column: string
  readonly before: unknown
  readonly after: unknown
  /** The service whose record has the value. Absent: the configuration names none. */
  readonly service?: string
}

/** Converts a previewed write to the row's difference; null if nothing would change. Pure. */
export function toDiffRow(source: Source, result: WriteResult, confidence: number | null): DiffRow | null {
  const { before, after } = result
  if (after === null) return null
  const { service } = source.mapping.turn
  const by = service === null ? {} : { service }
  const cell = ({ column }: { readonly column: string }): DiffCell[] =>
    Object.hasOwn(after, column)
      ? [{ column, before: before?.[column] ?? null, after: after[column], ...by }]
      : []
  return {
    source: source.name,
    key: result.key,
    confidence,
    cells: source.outputs.flatMap(cell),
    touched: source.touches.flatMap(cell),
  }
}

interface PreviewedRow {
  /** The state that the row would reach. */
  readonly row: FinishedRow
  /** What would be written; null if nothing. */
  readonly diff: DiffRow | null
}

/**
 * Computes what the write-back would do with answered rows, by its own code. Takes no locks and writes nothing, so it
 * cannot detect errors that only a write raises (check constraint, unique value, trigger).
 */
async function previewWriteBack(
  tx: Tx,
  source: Source,
  answered: readonly AnsweredRow[],
): Promise<PreviewedRow[]> {
  const { finished, fitted } = partitionAnswered(source, answered)
  const batch = fitted.map((one) => one.write)
  const results = await writeBatch(tx, source, batch, { preview: true })
  const written = fitted.map((one, n) => {
    const result = results[n]
    if (!result)
      throw new Error(`the preview of source ${source.name} returned no result for one of its rows`)
    return { row: toFinishedRow(source, one, result), diff: toDiffRow(source, result, one.row.confidence) }
  })
  return [...finished.map((row) => ({ row, diff: null })), ...written]
}

/** Rows per statement. */
const PREVIEW_BATCH_SIZE = 500

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

/** The answered rows of a dry run, by the state they would reach. */
export interface Preview extends DryRunReport {
  readonly states: Readonly<Record<RowState, number>>
  readonly cells: CellCounts
  readonly skipped: readonly SkippedGroup[]
}

const NO_STATES = Object.fromEntries(ROW_STATES.map((state) => [state, 0])) as Record<RowState, number>

/** Preview of a dry run that ended early: its rows wait. */
const EMPTY_PREVIEW: Preview = {
  states: NO_STATES,
  cells: { written: 0, protected: 0, skipped: 0 },
  skipped: [],
  columns: [],
  sample: [],
}

/**
 * Previews the writes of the rows of a dry run that a service has answered, in batches. The rows stay unchanged: the next run that writes
 * takes them over and writes them from the stored records.
 * @param options.sample number of rows to return
 */
export async function previewRun(
  deps: Pick<Deps, 'db' | 'policy' | 'random'>,
  run: RunService,
  options: { readonly sources: readonly Source[]; readonly sample: number; readonly signal: AbortSignal },
): Promise<Preview> {
  const states = { ...NO_STATES }
  const cells = { written: 0, protected: 0, skipped: 0 }
  const skipped = new SkippedTally()
  const columns: { source: string; column: string; written: number }[] = []
  const samples: RandomSample<DiffRow>[] = []
  for (const source of options.sources) {
    const counts = new Map(
      source.outputs.map(({ column }) => [column, { source: source.name, column, written: 0 }]),
    )
    const sample = new RandomSample<DiffRow>(options.sample, deps.random)
    for await (const { row, diff } of previewRows(deps, source, run, options.signal)) {
      states[row.state]++
      for (const count of ['written', 'protected', 'skipped'] as const) cells[count] += row.cells[count]
      skipped.add(source.name, row.skipped)
      for (const { column } of diff?.cells ?? []) {
        const count = counts.get(column)
        if (count) count.written++
      }
      if (diff !== null) sample.add(diff)
    }
    columns.push(...counts.values())
    samples.push(sample)
  }
  return { states, cells, skipped: skipped.groups(), columns, sample: sampleEvenly(samples, options.sample) }
}

/** What a run with several services would write. Pure. */
export function mergePreviews(previews: readonly Preview[]): Preview {
  const [first = EMPTY_PREVIEW] = previews
  if (previews.length < 2) return first
  const columns = new Map<string, DryRunReport['columns'][number]>()
  for (const one of previews.flatMap((preview) => preview.columns)) {
    const name = JSON.stringify([one.source, one.column])
    columns.set(name, { ...one, written: one.written + (columns.get(name)?.written ?? 0) })
  }
  const sum = <Count extends string>(counts: readonly Readonly<Record<Count, number>>[]) =>
    Object.fromEntries(
      Object.keys(counts[0] ?? {}).map((name) => [
        name,
        counts.reduce((total, one) => total + one[name as Count], 0),
      ]),
    ) as Record<Count, number>
  return {
    states: sum(previews.map(({ states }) => states)),
    cells: sum<keyof CellCounts>(previews.map(({ cells }) => cells)),
    skipped: mergeSkippedGroups(previews.flatMap(({ skipped }) => skipped)),
    columns: [...columns.values()],
    sample: previews.flatMap(({ sample }) => sample),
  }
}

async function* previewRows(
  deps: Pick<Deps, 'db' | 'policy'>,
  source: Source,
  run: RunService,
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
      deps.policy.sourceTimeoutMs,
    )
    yield* rows
    after = next
  }
}
