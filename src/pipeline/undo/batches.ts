import type { Source } from '../../sources/source.ts'
import type { OpenChange } from '../../store/changes.ts'
import type { Batch } from './batch.ts'

/**
 * Makes batches of a page of changes, newest first. Each batch is of one source and holds a row once; of a row's
 * changes the newest comes first, also when they are of two sources on one table. Pure.
 * @returns `unknown`: changes of sources that are not configured any more
 */
export function batchesOf(
  page: readonly OpenChange[],
  sources: ReadonlyMap<string, Source>,
): { readonly batches: readonly Batch[]; readonly unknown: readonly OpenChange[] } {
  const seen = new Map<string, number>()
  const rounds: Map<string, { readonly source: Source; readonly changes: OpenChange[] }>[] = []
  const unknown: OpenChange[] = []
  for (const change of page) {
    const source = sources.get(change.source)
    if (source === undefined) {
      unknown.push(change)
      continue
    }
    const row = rowOf(source, change.key)
    const newer = seen.get(row) ?? 0
    seen.set(row, newer + 1)
    const round = (rounds[newer] ??= new Map())
    const batch = round.get(source.name) ?? { source, changes: [] }
    batch.changes.push(change)
    round.set(source.name, batch)
  }
  return { batches: rounds.flatMap((round) => [...round.values()]), unknown }
}

/** The name of a row: the same for two sources that have the table and its key in common. */
export const rowOf = (source: Source, key: string): string =>
  JSON.stringify([source.table.sql, source.keyColumns.map((column) => column.name), key])
