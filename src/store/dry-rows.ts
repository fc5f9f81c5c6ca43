import { sql } from 'kysely'
import { Row } from '../domain/row.ts'
import { unindexed } from './batch.ts'
import { ANSWERED } from './lookups.ts'
import type { Database } from './open.ts'
import { parsed, type AnsweredRow, type Unparsed } from './rows.ts'
import type { StoreTransaction } from './transaction.ts'

/** Rows of a dry run and a source whose lookup is answered, in key order. @param after keyset: keys after this one */
export async function answered(
  db: Database | StoreTransaction,
  source: string,
  run: number,
  after: string,
  limit: number,
): Promise<AnsweredRow[]> {
  const { rows } = await sql<Unparsed<AnsweredRow>>`
    select r.key, r.input_hash as "inputHash", r.run_id as run, r.last_written::text as written, l.id as lookup, l.state, l.reason, l.record::text,
           l.confidence, l.refresh_at as "dueAt"
      from fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id
     where r.source = ${source} and r.key > ${after} and r.state = ${sql.lit(Row.waiting)}
       and ${unindexed(sql`r.run_id = ${run} and r.is_dry_run`)} and ${unindexed(sql`l.state in (${ANSWERED})`)}
     order by r.key limit ${limit}`.execute(db)
  return parsed<AnsweredRow>(rows)
}
