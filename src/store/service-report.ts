import { type RawBuilder, sql } from 'kysely'
import type { LookupState } from '../domain/lookup.ts'
import { isStandingSql } from './changes.ts'
import { jsonBatch } from './sql.ts'
import type { Tx } from './transaction.ts'

// What each service answered and filled, from what is stored. It reads all lookups and changes once: call it with a timeout.

export interface ServiceReportFilter {
  readonly sources: readonly string[]
  /** Midnight UTC of a day; null: since the start. */
  readonly since: Date | null
}

/** Lookups of a service by state, and the cells of a source that it filled. */
export type AnswerLine =
  | {
      readonly kind: 'lookups'
      readonly service: number
      readonly state: LookupState
      readonly count: number
    }
  | { readonly kind: 'cells'; readonly service: number; readonly source: string; readonly count: number }

/**
 * What the services have answered and filled. A cell is filled by the service whose write of it is the last that is not undone.
 * @param columns the output columns of each source
 */
export async function readAnswers(
  tx: Tx,
  { sources, since }: ServiceReportFilter,
  columns: Readonly<Record<string, readonly string[]>>,
): Promise<AnswerLine[]> {
  const from = (column: RawBuilder<unknown>): RawBuilder<unknown> =>
    since === null ? sql`true` : sql`${column} >= ${since}`
  // Sorts and hashes of a million rows spill to disk with the 4 MB that Postgres gives them, which takes as long again.
  await sql`set local work_mem = '64MB'`.execute(tx)
  const outputs = sources.map((source) => ({ source, columns: columns[source] ?? [] }))
  const { rows } = await sql<AnswerLine>`
    with output as materialized (
      select source, columns from jsonb_to_recordset(${jsonBatch(outputs)}) as v (source text, columns text[])
    ), written as materialized (
      select c.source, c.key, c.id, k.service_id as service,
             count(*) over (partition by c.source, c.key) as writes,
             array(select u."column" from unnest(o.columns) as u ("column") where c.after ->> u."column" is not null) as columns
        from fillrate.changes c
        join output o using (source)
        join fillrate.rows p on p.source = c.source and p.key = c.key and p.deleted_at is null
        left join fillrate.runs r on r.id = c.run_id
        left join fillrate.lookups k on k.id = c.lookup_id
       where ${from(sql`c.written_at`)} and ${isStandingSql}
    ), filled as (
      select source, service, sum(cardinality(columns)) as cells from written where writes = 1 group by source, service
       union all
      select source, service, count(*) from (
        select distinct on (source, key, u."column") source, service
          from written cross join lateral unnest(columns) as u ("column")
         where writes > 1 order by source, key, u."column", id desc) latest
       group by source, service
    )
    select 'lookups' as kind, service_id as service, null as source, state, count(*)
      from fillrate.lookups where resolved_at is null or ${from(sql`resolved_at`)} group by service_id, state
     union all
    select 'cells', service, source, null, sum(cells)::bigint from filled where service is not null group by source, service`.execute(
    tx,
  )
  return rows
}
