import { sql } from 'kysely'
import { ANSWERED_STATES } from './lookups.ts'
import { opaque } from './sql.ts'
import type { RunService } from './pending-lookups.ts'
import type { Connection } from './transaction.ts'
import { type AnsweredRow, parseRows, type Unparsed } from './write-back-queue.ts'

/**
 * Rows of a dry run and a source that have a result of a service, in key order.
 * @param after keyset: keys after this one
 */
export async function listAnsweredDryRows(
  db: Connection,
  source: string,
  { run, service }: RunService,
  after: string,
  limit: number,
): Promise<AnsweredRow[]> {
  const { rows } = await sql<Unparsed<AnsweredRow>>`
    select r.key, r.input_hash::text as "inputHash", r.run_id as run, r.last_written::text as written, r.earlier_writes::text as earlier, l.id as lookup, l.state, l.reason, l.record::text,
           l.confidence, l.refresh_at as "dueAt"
      from fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id
     where r.run_id = ${run} and r.service_id = ${service} and r.source = ${source} and r.key > ${after}
       and ${opaque(sql`r.state = 'waiting' and r.is_dry_run`)} and ${opaque(sql`l.state in (${ANSWERED_STATES})`)}
     order by r.key limit ${limit}`.execute(db)
  return parseRows<AnsweredRow>(rows)
}
