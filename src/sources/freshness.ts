import { formatDuration } from '../util/text.ts'
import { cellJsonSql, currentCellSql } from './cell.ts'
import type { MappedCell, MappedFreshness, Source, TimeType } from './source-model.ts'

/** The times that can be compared; earlier and later ones, `infinity` among them, count as these. */
const EARLIEST = '0001-01-01'
const LATEST = '9999-01-01'

/**
 * SQL for what a write sets the column to. A type without a zone is in UTC, as ORMs write it: in the zone of the session, two
 * processes, or a pooler, would write and read different times.
 */
export function stampExpression({ type, path }: MappedCell): string {
  if (path.length > 0) return `to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
  return type.fit.kind === 'timestamptz' ? 'now()' : inUtcSql('now()', type.fit.kind as TimeType)
}

/** SQL for a timestamptz as a type of time, which is in UTC if it has no zone. */
const inUtcSql = (time: string, type: TimeType): string =>
  type === 'timestamptz' ? time : `(${time} at time zone 'UTC')::${type}`

/** SQL: until when the stamp of a row keeps it fresh, a timestamptz. NULL: it has none. */
export function freshUntilSql({ freshness }: Pick<Source, 'freshness'>): string {
  if (freshness === null) return 'null::timestamptz'
  const { kind } = freshness
  const stamp = currentCellSql(freshness.cell)
  if (kind === 'json') return `(${jsonTimeSql(stamp)} + ${maxAgeSql(freshness)})`
  const bounded = `least(greatest(${stamp}, '${EARLIEST}'::${kind}), '${LATEST}'::${kind})`
  // A date is a whole day.
  const end = kind === 'date' ? `(${bounded} + 1)` : bounded
  const at = kind === 'timestamptz' ? end : `(${end}::timestamp at time zone 'UTC')`
  return `(case when ${stamp} is not null then ${at} + ${maxAgeSql(freshness)} end)`
}

/** SQL: the stamp as `changes` and `last_written` store it; NULL if the source writes none. */
export const stampJsonSql = ({ freshness }: Pick<Source, 'freshness'>): string =>
  freshness === null ? 'null::jsonb' : `coalesce(${cellJsonSql(freshness.cell)}, 'null')`

/**
 * SQL for a time written in JSON, in UTC whatever its zone: half a day is little against the age of a record. No text makes
 * it fail, the 30th of February included. NULL for what does not begin with a date.
 */
function jsonTimeSql(value: string): string {
  const text = `(${value} #>> '{}')`
  const day = `((left(${text}, 7) || '-01')::date + (substr(${text}, 9, 2)::int - 1))::timestamp`
  const time = `case when ${text} ~ '^.{10}[T ]([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d' then substr(${text}, 12, 8)::interval else '0' end`
  return (
    `(case when ${text} ~ '^[1-9]\\d{3}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])' ` +
    `then (${day} + ${time}) at time zone 'UTC' end)`
  )
}

/** Why a row with a recent stamp is not picked. */
export const describeFreshness = ({ freshness }: Pick<Source, 'freshness'>): string =>
  freshness === null ? '' : `${freshness.cell.column} is less than ${formatDuration(freshness.maxAgeMs)} old`

/** SQL for the age at which a stamp is stale, an interval. */
const maxAgeSql = ({ maxAgeMs }: MappedFreshness): string => `make_interval(secs => ${maxAgeMs / 1_000})`
