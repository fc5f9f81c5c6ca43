import { sql } from 'kysely'
import { Lookup } from '../domain/lookup.ts'
import { jsonBatch, unindexed } from './batch.ts'
import type { Wanted } from './lookups.ts'
import type { Database } from './open.ts'
import { parsed, type AnsweredRow, type Unparsed } from './rows.ts'
import type { StoreTransaction } from './transaction.ts'

type Connection = Database | StoreTransaction

const isFresh = sql`(l.refresh_at is null or l.refresh_at > now())`

/** Which of these have found nothing, and are not to be asked again yet; in the same order. */
export async function missed(db: Connection, wanted: readonly Wanted[], service: number): Promise<boolean[]> {
  if (wanted.length === 0) return []
  const { rows } = await sql<{ missed: boolean }>`
    select coalesce(l.state = ${sql.lit(Lookup.notFound)} and ${isFresh}, false) as missed
      from jsonb_to_recordset(${jsonBatch(wanted.map(({ kind, key }, n) => ({ n, kind, key })))})
           as w (n integer, kind text, key text)
      left join fillrate.lookups l on l.kind = w.kind and l.key = w.key and l.service_id = ${service}
     order by w.n`.execute(db)
  return rows.map((row) => row.missed)
}

export interface Asking extends Pick<Wanted, 'kind' | 'key'> {
  readonly row: string
  readonly inputHash: string
}

/** Those of some rows of a source for which a record is stored and fresh, as if each had been picked; in their order. */
export async function recordsFor(
  db: Connection,
  source: string,
  asking: readonly Asking[],
  service: number,
): Promise<AnsweredRow[]> {
  if (asking.length === 0) return []
  const batch = asking.map(({ row, inputHash, kind, key }, n) => ({ n, row, inputHash, kind, key }))
  const { rows } = await sql<Unparsed<AnsweredRow>>`
    select v.row as key, v."inputHash", r.run_id as run, r.last_written::text as written, l.id as lookup, l.state, l.reason, l.record::text, l.confidence,
           l.refresh_at as "dueAt"
      from jsonb_to_recordset(${jsonBatch(batch)})
           as v (n integer, row text, "inputHash" text, kind text, key text)
      join fillrate.lookups l on l.kind = v.kind and l.key = v.key and l.service_id = ${service}
      left join fillrate.rows r on r.source = ${source} and r.key = v.row
     where ${unindexed(sql`l.state = ${sql.lit(Lookup.found)} and ${isFresh}`)}
     order by v.n`.execute(db)
  return parsed<AnsweredRow>(rows)
}
