import { type RawBuilder, sql } from 'kysely'
import { readStoredInputs } from '../domain/service/job-inputs.ts'
import type { AwaitedJob, JobInputs } from '../domain/service/messages.ts'
import { memberInputsSql } from './lookups.ts'
import { intervalSql, jsonBatch, readOne } from './sql.ts'
import type { Connection, Tx } from './transaction.ts'

// Jobs that the service has accepted, and whose results are fetched if they are not delivered.

/** SQL: the job `j` is of the scope, or of a run that goes on in it: the key may have changed since it was submitted. */
const isOfScopeSql = (scope: string): RawBuilder<boolean> => sql<boolean>`
  (j.scope = ${scope} or exists (select from fillrate.runs r where r.id = j.run_id and r.scope = ${scope}))`

/** How many jobs of a scope are to be fetched now, up to a limit. */
export async function countDueJobs(db: Connection, scope: string, limit: number): Promise<number> {
  const counted = sql<{ due: number }>`
    select count(*) as due from (
      select from fillrate.jobs j
       where state = 'submitted' and poll_at <= now() and ${isOfScopeSql(scope)} limit ${limit}) jobs`
  return (await readOne(db, counted)).due
}

export interface PolledJob extends AwaitedJob {
  readonly id: string
  /** This poll included. */
  readonly polls: number
  readonly submittedAt: Date
  readonly deadlineAt: Date
}

/** Takes jobs that are to be fetched now. If the process dies, they are due again after `leaseMs`. */
export async function claimDueJobs(
  db: Connection,
  options: { readonly scope: string; readonly limit: number; readonly leaseMs: number },
): Promise<PolledJob[]> {
  const { rows } = await sql<
    Omit<PolledJob, keyof JobInputs> & { readonly stored: Parameters<typeof readStoredInputs>[0] }
  >`
    with due as (
      select key from fillrate.jobs j
       where state = 'submitted' and poll_at <= now() and ${isOfScopeSql(options.scope)}
       order by poll_at limit ${options.limit} for no key update skip locked
    )
    update fillrate.jobs j set poll_at = now() + ${intervalSql(options.leaseMs)}, polls = j.polls + 1
      from due where j.key = due.key
    returning j.key as id, j.job_id as "jobId", ${memberInputsSql} as stored, j.polls, j.submitted_at as "submittedAt",
              j.deadline_at as "deadlineAt"`.execute(db)
  return rows.map(({ stored, ...job }) => ({ ...job, ...readStoredInputs(stored) }))
}

/**
 * Records when jobs are fetched next. Locks them until commit.
 * @returns those whose results are still awaited: nothing was delivered meanwhile
 */
export async function schedulePolls(
  tx: Tx,
  jobs: readonly { readonly id: string; readonly pollAt: Date | null }[],
): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    update fillrate.jobs j set poll_at = v."pollAt"
      from jsonb_to_recordset(${jsonBatch(jobs)}) as v (id uuid, "pollAt" timestamptz)
     where j.key = v.id and j.state = 'submitted'
       and not exists (select from fillrate.deliveries d where d.job_key = j.key and d.state = 'received')
    returning j.key as id`.execute(tx)
  return rows.map((row) => row.id)
}

/** Gives up jobs that the service does not have any more. */
export async function expireGoneJobs(tx: Tx, jobs: readonly string[]): Promise<void> {
  if (jobs.length === 0) return
  await sql`
    update fillrate.jobs set state = 'expired', reason = 'the service has no such job any more', finished_at = now()
     where key = any(${[...jobs]}::uuid[]) and state = 'submitted'`.execute(tx)
}
