import { type RawBuilder, sql } from 'kysely'
import type { LookupState } from '../domain/lookup.ts'
import { isStandingSql } from './changes.ts'
import { jsonBatch } from './sql.ts'
import type { Tx } from './transaction.ts'

// What each service answered, found and filled, from what is stored. It reads all lookups, rows and changes once: call it with a
// timeout.

/** A column of a source, and where a service's record has its value. */
export interface ServiceOutput {
  readonly source: string
  readonly service: number
  readonly column: string
  /** A path into the record: `company.domain`. */
  readonly field: string
  readonly minConfidence: number
}

/** The least confidence of a record of a service that a source takes. */
export interface ServiceMinimum {
  readonly source: string
  readonly service: number
  readonly minConfidence: number
}

export interface ServiceReportFilter {
  readonly sources: readonly string[]
  /** Midnight UTC of a day; null: since the start. */
  readonly since: Date | null
}

/**
 * A line of what `readAnswers` returns; what its kind does not name is null.
 * - `lookups`: lookups of a service by state. `source` null: that for which they were requested is not known any more
 * - `cells`: cells of a column that a service filled. `only`: no other service has a record with a value for them
 * - `rows`: rows with the same answers, by service, and their cells by the services that have a value for them: `{ "{1,2}": 3 }`
 */
export interface AnswerLine {
  readonly kind: 'lookups' | 'cells' | 'rows'
  readonly source: string | null
  readonly service: number | null
  readonly state: LookupState | null
  readonly column: string | null
  readonly count: number
  readonly only: number | null
  readonly answers: Readonly<Record<string, boolean>> | null
  readonly cells: Readonly<Record<string, number>> | null
}

/**
 * What the services have answered and filled. A row is about its own lookups (of the last pass) and those of any service with the same
 * kind and key. A cell is filled by the service whose write of it is the last that is not undone.
 */
export async function readAnswers(
  tx: Tx,
  { sources, since }: ServiceReportFilter,
  outputs: readonly ServiceOutput[],
  minimums: readonly ServiceMinimum[],
): Promise<AnswerLine[]> {
  const from = (column: RawBuilder<unknown>): RawBuilder<unknown> =>
    since === null ? sql`true` : sql`${column} >= ${since}`
  // Sorts and hashes of a million rows spill to disk with the 4 MB that Postgres gives them, which takes as long again.
  await sql`set local work_mem = '64MB'`.execute(tx)
  const { rows } = await sql<AnswerLine>`
    with output as materialized (
      select source, service, "column", string_to_array(field, '.') as path, field, min
        from jsonb_to_recordset(${jsonBatch(outputs.map(({ minConfidence, ...one }) => ({ ...one, min: minConfidence })))})
             as v (source text, service smallint, "column" text, field text, min double precision)
    ), minimum as materialized (
      select source, service, min
        from jsonb_to_recordset(${jsonBatch(minimums.map(({ minConfidence, ...one }) => ({ ...one, min: minConfidence })))})
             as v (source text, service smallint, min double precision)
    ), known as materialized (
      select id, key, kind, service_id as service, source, state, resolved_at, confidence,
             case when state in ('not_found', 'rejected') then false when record is not null then true end as found
        from fillrate.lookups
    ), pass as materialized (
      select (row_number() over ())::integer as n, source, key, array_append(missed_lookup_ids, lookup_id) as ids, settled_at
        from fillrate.rows where source = any(${[...sources]}::text[]) and deleted_at is null
    ), answer as materialized (
      select n, service, bool_or(found) as found, max(id) filter (where found) as id from (
        select p.n, o.service, o.id, o.found and coalesce(o.confidence >= m.min, true) as found
          from pass p cross join lateral unnest(p.ids) as u (id)
          join known k on k.id = u.id
          join known o on o.key = k.key and o.kind = k.kind and o.found is not null
          left join minimum m on m.source = p.source and m.service = o.service
         where ${from(sql`p.settled_at`)}) about
       group by n, service
    ), written as materialized (
      select p.n, p.source, c.id, coalesce(k.service, r.service_id) as service, count(*) over (partition by p.n) as writes,
             array(select u."column" from unnest(s.columns) as u ("column") where c.after ->> u."column" is not null) as columns
        from fillrate.changes c
        join (select source, array_agg(distinct "column") as columns from output group by source) s using (source)
        join pass p on p.source = c.source and p.key = c.key
        left join fillrate.runs r on r.id = c.run_id
        left join known k on k.id = c.lookup_id
       where ${from(sql`c.written_at`)} and ${isStandingSql}
    ), filled as materialized (
      select n, source, service, columns from written where writes = 1 and service is not null and columns <> '{}'
       union all
      select n, source, service, array_agg("column") from (
        select distinct on (n, u."column") n, source, u."column", service
          from written cross join lateral unnest(columns) as u ("column")
         where writes > 1 and service is not null order by n, u."column", id desc) latest
       group by n, source, service
    ), able as materialized (
      select f.n, f.service as writer, u."column", a.service
        from (select n from answer where found group by n having count(*) > 1) several
        join filled f using (n) cross join lateral unnest(f.columns) as u ("column")
        join answer a on a.n = f.n and a.found and a.service <> f.service
        join fillrate.lookups l on l.id = a.id
        join output o on o.source = f.source and o.service = a.service and o."column" = u."column" and coalesce(l.confidence >= o.min, true)
       where btrim(coalesce(l.record #>> o.path, l.record ->> o.field), E' \t\r\n') not in ('', '[]', '{}')
    ), cells as materialized (
      select f.n, f.source, f.service, array[f.service] as services, f.columns
        from filled f where not exists (select from able a where a.n = f.n)
       union all
      select n, source, service, services, array_agg("column") from (
        select n, source, service, "column", array_agg(distinct able_service order by able_service) as services from (
          select f.n, f.source, f.service, u."column", f.service as able_service
            from filled f cross join lateral unnest(f.columns) as u ("column") where exists (select from able a where a.n = f.n)
           union all
          select a.n, f.source, a.writer, a."column", a.service from able a join filled f on f.n = a.n and f.service = a.writer) one
         group by n, source, service, "column") cell
       group by n, source, service, services
    ), per_row as (
      select n, jsonb_object_agg(service, found) as answers from answer group by n
    ), cells_per_row as (
      select n, jsonb_object_agg(services::text, count) as cells
        from (select n, services, sum(cardinality(columns)) as count from cells group by n, services) one group by n
    )
    select 'lookups' as kind, source, service, state, null as "column", count(*), null::bigint as only, null::jsonb as answers, null::jsonb as cells
      from known where resolved_at is null or ${from(sql`resolved_at`)} group by source, service, state
     union all
    select 'cells', source, service, null, u."column", count(*), count(*) filter (where cardinality(services) = 1), null, null
      from cells cross join lateral unnest(columns) as u ("column") group by source, service, u."column"
     union all
    select 'rows', source, null, null, null, count(*), null, coalesce(answers, '{}'), coalesce(cells, '{}')
      from per_row full join cells_per_row using (n) join pass using (n) group by source, answers, cells`.execute(
    tx,
  )
  return rows
}
