import { sql, type RawBuilder } from 'kysely'
import type { EarlierSteps } from '../../domain/step.ts'
import { hasCascade, type LookupKind } from '../../domain/identifiers/kind.ts'
import { Row } from '../../domain/row.ts'
import type { Source } from '../../sources/source-model.ts'

/** Lookups that were requested before the next one, in the order of their requests. */
export interface EarlierLookups {
  readonly ids: readonly number[]
  /** Of those of this service. */
  readonly kinds: readonly LookupKind[]
  /**
   * One of those was no miss: no other identifier is tried. Absent: there is one service, which then
   * is done with the row.
   */
  readonly isAnswered?: boolean
  /** When the last of them may be requested again; of several services the first, or of those that found a record. */
  readonly dueAt: string | null
  /** What other services have left. Absent: there is one service. */
  readonly earlier?: EarlierSteps
}

/** The lookups that the row `r` missed at a service, while it waits with the inputs that `page` shows. */
export function missedLookupsSql(source: Source, service: number): RawBuilder<EarlierLookups | null> {
  if (source.mapping.turn.services.length > 0) return earlierLookupsSql(service)
  if (!hasCascade(source.mapping)) return sql`null::jsonb`
  return sql`case when r.state = ${sql.lit(Row.waiting)} and r.input_hash = page.input_hash then (
    select jsonb_build_object('ids', jsonb_agg(l.id order by t.n), 'kinds', jsonb_agg(l.kind order by t.n),
                              'dueAt', max(l.refresh_at))
      from unnest(r.missed_lookup_ids) with ordinality t (id, n) join fillrate.lookups l on l.id = t.id and l.service_id = ${service}
    having count(*) > 0) end`
}

/** The same with the lookups of all services. Not null where the row waits with these inputs. */
const earlierLookupsSql = (service: number) => sql<EarlierLookups | null>`
  case when r.state = ${sql.lit(Row.waiting)} and r.input_hash = page.input_hash then (
    select jsonb_build_object(
             'ids', coalesce(jsonb_agg(l.id order by t.n), '[]'),
             'kinds', coalesce(jsonb_agg(l.kind order by t.n) filter (where l.service_id = ${service}), '[]'),
             'isAnswered', coalesce(bool_or(l.service_id = ${service} and l.state in ('found', 'rejected')), false),
             'dueAt', coalesce(min(l.refresh_at) filter (where l.state = 'found'), min(l.refresh_at)),
             'earlier', jsonb_build_object('onlyBlanks', r.only_blanks, 'cellsWritten', r.cells_written))
      from unnest(r.missed_lookup_ids) with ordinality t (id, n) join fillrate.lookups l on l.id = t.id) end`
