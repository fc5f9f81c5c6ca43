import type { Source } from '../../sources/source.ts'
import type { WriteResult } from '../../sources/write.ts'

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
export function diffOf(source: Source, result: WriteResult, confidence: number | null): DiffRow | null {
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
export function fairShare<Item>(lists: readonly (readonly Item[])[], most: number): Item[] {
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
