import type { z } from 'zod'
import type { SourceMapping } from '../domain/mapping.ts'
import { rejecting } from './primitives.ts'
import { listOutputs } from './turns.ts'

type GroupedOutput = string | { readonly field: string; readonly group?: string | null }

interface MappedColumns extends Pick<SourceMapping, 'key' | 'touch'> {
  readonly outputs: Readonly<
    Record<string, GroupedOutput | Readonly<Record<string, GroupedOutput | undefined>>>
  >
  readonly freshness: { readonly column?: string | undefined; readonly read?: string | undefined } | null
}

/**
 * Checks what a source writes, without the database: a cell that is written twice or inside another, or belongs to the key; a
 * group of one.
 */
export function checkOutputs(source: MappedColumns, context: z.core.$RefinementCtx): void {
  const reject = rejecting(context)
  const columns = Object.keys(source.outputs)
  if (columns.length === 0) reject(['outputs'], 'an empty object', 'at least one column to fill')
  const { column: stamp, read } = source.freshness ?? {}
  if (source.freshness !== null && (stamp === undefined) === (read === undefined))
    reject(
      ['freshness'],
      stamp === undefined ? 'an empty object' : 'both `column` and `read`',
      'a `column` that each write sets, or a `read` expression',
    )
  const touched = Object.keys(source.touch)
  const toCell = (place: readonly string[], column: string) => ({ place, column, path: toColumnPath(column) })
  const cells = [
    ...columns.map((column) => toCell(['outputs', column], column)),
    ...touched.map((column) => toCell(['touch', column], column)),
    // `touch` may say what the stamp is.
    ...(stamp === undefined || touched.includes(stamp) ? [] : [toCell(['freshness', 'column'], stamp)]),
  ]
  const keys = new Set((source.key ?? []).map(unquoteName))
  for (const [at, { place, path }] of cells.entries()) {
    const twin = cells
      .slice(0, at)
      .find((other) => path.every((part, depth) => depth >= other.path.length || part === other.path[depth]))
    if (twin !== undefined)
      reject(place, `a cell of ${twin.column}, which is written, too`, 'each column, or each key in it, once')
    if (keys.has(path[0] ?? ''))
      reject(place, 'a column of the key', 'a column that does not identify the row')
  }
  const groups = Object.entries(source.outputs).flatMap(([column, output]) =>
    listOutputs(output).flatMap(([path, one]) =>
      typeof one === 'string' || typeof one.group !== 'string' ? [] : [{ column, path, group: one.group }],
    ),
  )
  for (const { column, path, group } of groups)
    if (groups.every((other) => other.group !== group || other.column === column))
      reject(
        ['outputs', column, ...path, 'group'],
        `'${group}', which no other output has`,
        'a group of two outputs or more',
      )
}

/** `attributes."a.b"` → `attributes`, `a.b`. */
function toColumnPath(column: string): string[] {
  return [...column.matchAll(/"(?:[^"]|"")*"|[^."]+/g)].map(([segment]) => unquoteName(segment.trim()))
}

function unquoteName(name: string): string {
  return /^".*"$/s.test(name) ? name.slice(1, -1).replaceAll('""', '"') : name
}
