import { sql } from 'kysely'
import { jsonBatch, readOne } from './sql.ts'
import type { Connection } from './transaction.ts'
import type { LookupSpec } from './upsert-lookups.ts'

/** A service and the least confidence that a source takes of its records. */
interface JudgedService {
  readonly service: number
  readonly minConfidence: number
}

interface FoundByPlace {
  /** By the place of the service in the list; missing: it was not called. */
  readonly found: Readonly<Record<string, boolean>>
  readonly lookups: Readonly<Record<string, number>>
  readonly rows: number
}

/** Rows to read: a random sample of more. */
const SAMPLE_ROWS = 50_000

/** What services have answered about the rows of a source, at their last pass. Of many rows, from a random sample. */
export async function readAnswersSoFar(
  db: Connection,
  source: string,
  services: readonly JudgedService[],
): Promise<FoundByPlace[]> {
  const counted = sql<{ rows: number }>`
    select greatest(reltuples, 1)::float8 as rows from pg_class where oid = 'fillrate.rows'::regclass`
  const percent = Math.min(100, (100 * SAMPLE_ROWS) / (await readOne(db, counted)).rows)
  const judged = jsonBatch(services.map((one, place) => ({ place, ...one })))
  const { rows } = await sql<FoundByPlace>`
    with sampled as materialized (
      select key, missed_lookup_ids || lookup_id as ids, lookup_id
        from fillrate.rows tablesample system (${percent}) repeatable (0)
       where source = ${source} and state not in ('waiting', 'suppressed') and deleted_at is null
    ), called as (
      select r.key, s.place, bool_or(l.state = 'found' and coalesce(l.confidence >= s."minConfidence", true)) as found, count(*) as lookups
        from sampled r
       cross join lateral unnest(coalesce(r.ids, array[r.lookup_id])) as t (id)
        join fillrate.lookups l on l.id = t.id and l.state in ('found', 'not_found', 'rejected')
        join jsonb_to_recordset(${judged}) as s (place integer, service smallint, "minConfidence" float8) on s.service = l.service_id
       group by r.key, s.place
    ), by_row as (
      select jsonb_object_agg(place, found) as found, jsonb_object_agg(place, lookups) as lookups from called group by key
    )
    select found, lookups, count(*) as rows from by_row group by found, lookups`.execute(db)
  return rows
}

/** What is stored about a lookup: a record, nothing, or a call under way. */
interface StoredState {
  readonly state: 'found' | 'missed' | 'open'
  readonly confidence: number | null
}

/** What a service has answered to these lookups, in the same order; null: the service was never called with it. */
export async function listStoredStates(
  db: Connection,
  lookups: readonly LookupSpec[],
  service: number,
): Promise<(StoredState | null)[]> {
  if (lookups.length === 0) return []
  const { rows } = await sql<{ answer: StoredState | null }>`
    select case when l.id is not null then jsonb_build_object(
             'state', case when l.state = 'found' then 'found' when l.state in ('not_found', 'rejected') then 'missed' else 'open' end,
             'confidence', l.confidence) end as answer
      from jsonb_to_recordset(${jsonBatch(lookups.map(({ kind, key }, n) => ({ n, kind, key })))})
           as w (n integer, kind text, key text)
      left join fillrate.lookups l on l.kind = w.kind and l.key = w.key and l.service_id = ${service}
     order by w.n`.execute(db)
  return rows.map((row) => row.answer)
}
