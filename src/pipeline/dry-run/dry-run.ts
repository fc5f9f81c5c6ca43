import { ROW_STATES, type RowState } from '../../domain/row.ts'
import type { Source } from '../../sources/source.ts'
import * as dryRows from '../../store/dry-rows.ts'
import type { Cells } from '../../store/rows.ts'
import { inTransaction } from '../../store/transaction.ts'
import type { Deps } from '../deps.ts'
import { fairShare, type DiffRow } from './diff.ts'
import { rehearse, type Rehearsed } from './rehearse.ts'

/** Rows of one statement. */
const AT_ONCE = 500

/** What a run would write. */
export interface DryRun {
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
export interface Rehearsal extends DryRun {
  readonly states: Readonly<Record<RowState, number>>
  readonly cells: Cells
}

const NO_STATES = Object.fromEntries(ROW_STATES.map((state) => [state, 0])) as Record<RowState, number>

/** Of a dry run that ended before its time: its rows wait. */
export const NOTHING_REHEARSED: Rehearsal = {
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
export async function rehearseRun(
  deps: Pick<Deps, 'db' | 'rules'>,
  run: number,
  options: { readonly sources: readonly Source[]; readonly sample: number; readonly signal: AbortSignal },
): Promise<Rehearsal> {
  const states = { ...NO_STATES }
  const cells = { written: 0, protected: 0, skipped: 0 }
  const columns: { source: string; column: string; written: number }[] = []
  const samples: DiffRow[][] = []
  for (const source of options.sources) {
    const counts = new Map(
      source.outputs.map(({ column }) => [column, { source: source.name, column, written: 0 }]),
    )
    const sample: DiffRow[] = []
    for await (const { row, diff } of rehearsed(deps, source, run, options.signal)) {
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
  return { states, cells, columns, sample: fairShare(samples, options.sample) }
}

async function* rehearsed(
  deps: Pick<Deps, 'db' | 'rules'>,
  source: Source,
  run: number,
  signal: AbortSignal,
): AsyncGenerator<Rehearsed> {
  let after: string | null = ''
  while (after !== null && !signal.aborted) {
    const from: string = after
    const { rows, next } = await inTransaction(
      deps.db,
      async (tx) => {
        const answered = await dryRows.answered(tx, source.name, run, from, AT_ONCE)
        const last = answered.length < AT_ONCE ? null : (answered.at(-1)?.key ?? null)
        return { rows: await rehearse(tx, source, answered), next: last }
      },
      deps.rules.sourceTimeoutMs,
    )
    yield* rows
    after = next
  }
}
