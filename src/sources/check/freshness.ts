import type { SourceMapping } from '../../domain/mapping.ts'
import type { Table } from '../catalogue.ts'
import { stampExpression } from '../freshness.ts'
import type { ProblemList } from '../problems.ts'
import type { MappedFreshness, MappedTouch, TimeType } from '../source-model.ts'
import { resolveCell } from './cells.ts'

const TIMES: readonly TimeType[] = ['timestamptz', 'timestamp', 'date']

/** Resolves the column of `freshness`, and adds it to the touched columns unless `touch` sets it already. */
export function resolveFreshness(
  table: Table,
  mapping: SourceMapping,
  touches: readonly MappedTouch[],
  keyNames: readonly string[],
  report: ProblemList,
): { readonly touches: readonly MappedTouch[]; readonly freshness: MappedFreshness | null } {
  if (mapping.freshness === null) return { touches, freshness: null }
  const { column, read, maxAgeMs } = mapping.freshness
  // The type is known once the expression has been tried.
  if (column === undefined) return { touches, freshness: { cell: null, read, kind: 'timestamptz', maxAgeMs } }
  const place = 'freshness.column'
  const cell = resolveCell(table, column, place, keyNames, report)
  if (cell === null) return { touches, freshness: null }
  const { kind } = cell.type.fit
  const time = TIMES.find((one) => one === kind)
  if (cell.path.length === 0 && time === undefined) {
    report.add(
      place,
      `'${cell.attribute}', which is ${cell.type.name}`,
      'a time: timestamptz, timestamp or date, or a key inside a jsonb column',
      `Name another column, or add one: alter table ${table.sql} add column enriched_at timestamptz`,
    )
    return { touches, freshness: null }
  }
  const touch = touches.find(
    (other) => other.attribute === cell.attribute && other.path.join('\0') === cell.path.join('\0'),
  )
  return {
    touches: touch ? touches : [...touches, { ...cell, expression: stampExpression(cell) }],
    freshness: { cell: touch ?? cell, read: null, kind: time ?? 'json', maxAgeMs },
  }
}
