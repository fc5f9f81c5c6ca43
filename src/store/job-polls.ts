import { type RawBuilder, sql } from 'kysely'
import { readStoredInputs } from '../domain/service/job-inputs.ts'
import type { AwaitedJob, JobInputs } from '../domain/service/messages.ts'
import { addSpendSql } from './spend.ts'
import { intervalSql, jsonBatch, readCount } from './sql.ts'
import { hasResultsSql, isOpenMemberSql, memberInputsSql, pricedAsSql } from './terms.ts'
import type { Connection, Tx } from './transaction.ts'

// Jobs that the service has accepted, and whose results are fetched if they are not delivered.

/**
 * SQL: the job `j` is to be fetched now: it is of the scope, or of a run that goes on in it, since the key may have changed since it was
 * submitted. While its results wait to be settled, it would be fetched from its beginning.
 */
const isDueSql = (scope: string): RawBuilder<boolean> => sql<boolean>`(
  j.state = 'submitted' and j.poll_at <= now() and not ${hasResultsSql}
  and (j.scope = ${scope} or exists (select from fillrate.runs r where r.id = j.run_id and r.scopes ->> j.service_id::text = ${scope})))`

/** How many jobs of a scope are to be fetched now, up to a limit. */
export const countDueJobs = (db: Connection, scope: string, limit: number): Promise<number> =>
  readCount(db, sql`(select from fillrate.jobs j where ${isDueSql(scope)} limit ${limit}) jobs`)

export interface PolledJob extends AwaitedJob {
  readonly id: string
  /** This poll included. */
  readonly polls: number
  /** Pages of its results that are stored. */
  readonly pages: number
  readonly submittedAt: Date
  readonly deadlineAt: Date
  /** A single lookup, accepted for later: nothing is delivered for it. */
  readonly isSingle: boolean
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
      select key from fillrate.jobs j where ${isDueSql(options.scope)}
       order by poll_at limit ${options.limit} for no key update skip locked
    )
    update fillrate.jobs j set poll_at = now() + ${intervalSql(options.leaseMs)}, polls = j.polls + 1
      from due where j.key = due.key
    returning j.key as id,
              j.job_id as "jobId",
              ${memberInputsSql} as stored,
              j.polls,
              j.cursor,
              j.pages,
              j.submitted_at as "submittedAt",
              j.deadline_at as "deadlineAt", j.is_async_answer as "isSingle"`.execute(db)
  return rows.map(({ stored, ...job }) => ({ ...job, ...readStoredInputs(stored) }))
}

/**
 * Records when jobs are fetched next. Locks them until commit.
 * @param jobs with the number of the poll: another process may have fetched a job since, and its pages must stay in their order
 * @returns those whose results are still awaited: nothing was delivered meanwhile
 */
export async function schedulePolls(
  tx: Tx,
  jobs: readonly { readonly id: string; readonly polls: number; readonly pollAt: Date | null }[],
): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    update fillrate.jobs j set poll_at = v."pollAt"
      from jsonb_to_recordset(${jsonBatch(jobs)}) as v (id uuid, polls integer, "pollAt" timestamptz)
     where j.key = v.id and j.polls = v.polls and j.state = 'submitted' and not ${hasResultsSql}
    returning j.key as id`.execute(tx)
  return rows.map((row) => row.id)
}

/** Records where the next pages of jobs are, when they are fetched, and how many are stored. */
export async function advancePages(
  tx: Tx,
  jobs: readonly {
    readonly id: string
    readonly cursor: string | null
    readonly pages: number
    readonly pollAt: Date | null
  }[],
): Promise<void> {
  if (jobs.length === 0) return
  await sql`
    update fillrate.jobs j set cursor = v.cursor, pages = v.pages, poll_at = v."pollAt"
      from jsonb_to_recordset(${jsonBatch(jobs)}) as v (id uuid, cursor text, pages integer, "pollAt" timestamptz)
     where j.key = v.id`.execute(tx)
}

/** Locks jobs of which pages are stored, and no further one is fetched. @returns their keys */
export async function lockJobsOfLeftPages(tx: Tx, limit: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select j.key as id from fillrate.jobs j
     where j.key in (select job_key from fillrate.deliveries where state = 'partial')
       and not (j.state = 'submitted' and j.poll_at is not null and j.deadline_at > now())
     order by j.key limit ${limit} for no key update skip locked`.execute(tx)
  return rows.map((row) => row.id)
}

/**
 * Ends jobs that the service gave up because the account had no credits: what was counted of them when they were accepted is taken
 * back, and their members wait again, on any route and without an attempt. Leaves jobs of which anything was delivered.
 * @returns the ended jobs
 */
export async function endUnpaidJobs(tx: Tx, keys: readonly string[]): Promise<string[]> {
  if (keys.length === 0) return []
  const reason = 'the account had no credits for it'
  const { rows } = await sql<{ id: string }>`
    with unpaid as (
      -- Without a time of submission a job of many is not counted: see count_job_spend.
      update fillrate.jobs j set state = 'rejected', reason = ${reason}, submitted_at = null, poll_at = null, finished_at = now()
       where key = any(${[...keys]}::uuid[]) and state = 'submitted' and pages = 0
         and not exists (select from fillrate.lookups l where l.id = any(j.lookup_ids) and not ${isOpenMemberSql('j.key')})
      returning j.key, j.is_async_answer, j.lookup_ids, j.most, (j.created_at at time zone 'UTC')::date as day
    ), stored as (
      update fillrate.lookups l
         set state = 'pending', reason = ${reason}, job_key = null, not_before = null,
             attempts = greatest(0, l.attempts - member.is_async_answer::integer)
        from (select m.id, unpaid.* from unpaid cross join lateral unnest(lookup_ids) as m (id)) as member
       where l.id = member.id
      returning l.run_id, l.service_id, l.kind, l.source, member.day, (member.most ->> l.kind)::numeric as reserved, member.is_async_answer
    ), uncounted as (
      ${addSpendSql(
        {
          lookups: sql`-count(*)`,
          credits: sql`-count(*) filter (where reserved is null)`,
          credits_in_doubt: sql`-coalesce(sum(reserved), 0)`,
        },
        sql`from (
        select coalesce(run_id, 0) as run_id, day, service_id, coalesce(source, '') as source, ${pricedAsSql(sql`kind`)} as endpoint, reserved
          from stored where is_async_answer) unpaid_single`,
      )}
    )
    select key as id from unpaid`.execute(tx)
  return rows.map((row) => row.id)
}
