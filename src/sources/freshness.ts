import { formatDuration } from '../util/text.ts'
import { cellJsonSql, currentCellSql } from './cell.ts'
import type { MappedFreshness, Source, TimeType } from './source-model.ts'

/** The times that can be compared; earlier and later ones, `infinity` among them, count as these. */
const EARLIEST = '0001-01-01'
const LATEST = '9999-01-01'

/**
 * SQL for what a write sets the column to. A type without a zone is in UTC, as ORMs write it: in the zone of the session, two
 * processes, or a pooler, would write and read different times.
 */
export const stampExpression = (type: TimeType): string =>
  type === 'timestamptz' ? 'now()' : `(now() at time zone 'UTC')::${type}`

/** SQL: until when the stamp of a row keeps it fresh, a timestamptz. NULL: it has none. */
export function freshUntilSql({ freshness }: Pick<Source, 'freshness'>): string {
  if (freshness === null) return 'null::timestamptz'
  const { kind } = freshness
  const stamp = currentCellSql(freshness.cell)
  const bounded = `least(greatest(${stamp}, '${EARLIEST}'::${kind}), '${LATEST}'::${kind})`
  // A date is a whole day.
  const end = kind === 'date' ? `(${bounded} + 1)` : bounded
  const at = kind === 'timestamptz' ? end : `(${end}::timestamp at time zone 'UTC')`
  return `(case when ${stamp} is not null then ${at} + ${maxAgeSql(freshness)} end)`
}

/** SQL: the stamp as `changes` and `last_written` store it; NULL if the source writes none. */
export const stampJsonSql = ({ freshness }: Pick<Source, 'freshness'>): string =>
  freshness === null ? 'null::jsonb' : `coalesce(${cellJsonSql(freshness.cell)}, 'null')`

/** Why a row with a recent stamp is not picked. */
export const describeFreshness = ({ freshness }: Pick<Source, 'freshness'>): string =>
  freshness === null ? '' : `${freshness.cell.column} is less than ${formatDuration(freshness.maxAgeMs)} old`

/** SQL for the age at which a stamp is stale, an interval. */
const maxAgeSql = ({ maxAgeMs }: MappedFreshness): string => `make_interval(secs => ${maxAgeMs / 1_000})`
