import { sql } from 'kysely'
import { jsonBatch } from './batch.ts'
import type { Database } from './open.ts'

/** An answer that was no record, kept so that somebody can see what the service sends. */
export interface KeptAnswer {
  readonly lookup: number
  readonly status: number
  /** The beginning of its body. */
  readonly body: string
}

/** Of a service that answers everything so, the latest say it all. */
const KEPT = 1_000

/** Keeps answers, one of each lookup, and lets the oldest go. */
export async function keep(db: Database, answers: readonly KeptAnswer[]): Promise<void> {
  if (answers.length === 0) return
  await sql`
    insert into fillrate.malformed_responses as k (lookup_id, status, body)
    select v.lookup, v.status, v.body
      from jsonb_to_recordset(${jsonBatch(answers)}) as v (lookup bigint, status integer, body text)
      join fillrate.lookups l on l.id = v.lookup
     order by v.lookup
    on conflict (lookup_id) do update
       set status = excluded.status, body = excluded.body, received_at = excluded.received_at`.execute(db)
  await sql`
    delete from fillrate.malformed_responses
     where lookup_id in (select lookup_id from fillrate.malformed_responses order by received_at desc, lookup_id offset ${KEPT})`.execute(
    db,
  )
}
