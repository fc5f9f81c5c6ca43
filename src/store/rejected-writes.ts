import { sql } from 'kysely'
import {
  MANY_REJECTED_ROWS,
  MIN_REJECTED_ROWS,
  NOTABLE_ONE_IN,
  type RejectedWrites,
  type RunRejections,
} from '../domain/rejected-writes.ts'
import type { Connection } from './transaction.ts'
import { intervalSql } from './sql.ts'

/** Rows that were rejected before are not looked at any more. */
const RECENT_MS = 7 * 24 * 3_600_000

/** Sources with more than a few rejected rows. Reads a bounded number of rows of each: it runs every two seconds. */
export async function listRejectedWrites(db: Connection): Promise<RejectedWrites[]> {
  const { rows } = await sql<
    Omit<RejectedWrites, 'runs'> & { runs: (Omit<RunRejections, 'since'> & { since: string })[] }
  >`
    with rejecting as (
      select source, sum(rows)::bigint as rows from fillrate.row_counts where state = 'write_rejected'
       group by source having sum(rows) >= ${MIN_REJECTED_ROWS}
    )
    select r.source, r.rows, latest.reason, latest.runs
      from rejecting r cross join lateral (
        with latest as materialized (
          select run_id, reason, settled_at from fillrate.rows
           where source = r.source and failure = 'write_rejected'
             and run_id >= (select min(id) from fillrate.runs where started_at > now() - ${intervalSql(RECENT_MS)})
           order by run_id desc limit ${MANY_REJECTED_ROWS}
        ), by_run as (
          select run_id, count(*) as rejected, min(settled_at) as since from latest group by run_id
        )
        select mode() within group (order by reason) as reason,
               (select jsonb_agg(jsonb_build_object('rejected', rejected, 'since', since,
                         'written', (select count(*) from (select from fillrate.changes c
                                      where c.run_id = by_run.run_id and c.source = r.source
                                      limit case when rejected < ${MANY_REJECTED_ROWS} then rejected * ${NOTABLE_ONE_IN} else 0 end) written))
                       order by run_id desc)
                  from by_run) as runs
          from latest having count(*) > 0) latest
     order by r.source`.execute(db)
  return rows.map((row) => ({
    ...row,
    runs: row.runs.map((run) => ({ ...run, since: new Date(run.since) })),
  }))
}
