import { type RawBuilder, sql } from 'kysely'
import { REQUEST_LIFETIME_MS, RESUME_LIFETIME_MS, type RequestedRun } from '../domain/requested-run.ts'
import { intervalSql } from './sql.ts'
import type { Connection } from './transaction.ts'

// Requested runs are scheduled runs with a `request`: claimed, leased, released and finished by the same statements.
// Unlike those of a schedule they wait for no other run of their sources, as `fillrate run` does not either.

/** A request as it is stored. */
export interface StoredRequest {
  readonly id: string
  readonly work: RequestedRun
  /** Who requested it. */
  readonly by: string
}

/** The schedule's name of a request, which is unique. */
const scheduleOf = (id: string): string => `request ${id}`

/**
 * Stores a request, to be claimed by a process that can execute it.
 * @param service the service that the requesting process calls; 0 if it calls none: any will do
 * @returns false if this request is stored already
 */
export async function insertRequest(
  db: Connection,
  { id, work, by }: StoredRequest,
  service: number,
): Promise<boolean> {
  // `at` is part of the key, and a Date holds milliseconds.
  const result = await sql`
    insert into fillrate.scheduled_runs (schedule, at, sources, state, request)
    values (${scheduleOf(id)}, date_trunc('milliseconds', now()), ${[...work.sources]}::text[], 'waiting',
            ${JSON.stringify({ id, work, by, service })}::jsonb)
    on conflict (schedule) where request is not null do nothing`.execute(db)
  return result.numAffectedRows === 1n
}

/** What a process can execute. */
export interface RequestCapability {
  /** The sources of its configuration. */
  readonly sources: readonly string[]
  /** The service that it calls; 0 if none. */
  readonly service: number
}

/** SQL: whether a process can execute the request of a scheduled run. */
export const isExecutableSql = (
  run: RawBuilder<unknown>,
  { sources, service }: RequestCapability,
): RawBuilder<boolean> => sql`(
  ${run}.sources <@ ${[...sources]}::text[]
  and (${run}.request ->> 'service')::integer in (0, ${service}::integer))`

/**
 * SQL: whether the request of a scheduled run has waited too long for a process to execute it. One that was interrupted
 * by a shutdown has a day, for a daemon that is back the next morning.
 */
export const isExpiredRequestSql = (run: RawBuilder<unknown>): RawBuilder<boolean> => sql`(
  ${run}.request is not null and ${run}.state = 'waiting'
  and ${run}.at < now() - case when ${run}.run_id is null then ${intervalSql(REQUEST_LIFETIME_MS)}
                               else ${intervalSql(RESUME_LIFETIME_MS)} end)`

export const EXPIRED_REQUEST_REASON = 'no process with its sources executed it in time'
