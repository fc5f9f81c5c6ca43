import { sql, type RawBuilder } from 'kysely'
import type { RunReport } from '../domain/report/run.ts'
import { MAX_AWAITED_DELAY_MS } from '../domain/backoff.ts'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { earlierWritesWithSql, lastWrittenWithSql } from './own-values.ts'
import {
  intervalSql,
  isTrue,
  jsonBatch,
  opaque,
  parseColumns,
  readOne,
  recordBatch,
  type WithText,
} from './sql.ts'
import {
  ANSWERED_STATES,
  hasAnsweredRowsSql,
  hasLeasesSql,
  isOpenMemberSql,
  isOrphanedSql,
  runsWithWaitingSql,
  waitingRowsSql,
} from './terms.ts'
import type { Connection } from './transaction.ts'
import type { AnsweredRow } from './write-back-queue.ts'
import type { RunService } from './pending-lookups.ts'

/** Whether lookups of a run are leased, or answers wait to be written to its rows. */
export const hasWorkUnderWay = (db: Connection, run: number): Promise<boolean> =>
  isTrue(db, sql`${hasLeasesSql(run)} or ${hasAnsweredRowsSql(sql`r.run_id = ${run}`)}`)

/** What a run may still do at one of its services. */
export interface ServiceSources {
  readonly service: number
  readonly sources: readonly string[]
}

/** SQL: how many rows of a run wait. */
const waitingOfRunSql = (run: number): RawBuilder<number> => sql`(
  select coalesce(sum(rows), 0)::bigint from fillrate.row_counts where state = 'waiting' and run_id = ${run})`

/** Whether any row of a run waits, and at which services one is to be picked again; cheap enough to poll. */
export function findWaitingRows(
  db: Connection,
  run: number,
  services: readonly ServiceSources[],
): Promise<{ readonly hasWaiting: boolean; readonly requeuedAt: readonly number[] }> {
  const found = sql<{ hasWaiting: boolean; requeuedAt: number[] }>`
    select ${waitingOfRunSql(run)} > 0 as "hasWaiting", array(
      select v.service from jsonb_to_recordset(${jsonBatch(services)}) as v (service integer, sources text[])
       where exists (select from fillrate.rows r
                      where r.source = any(v.sources) and r.is_requeued
                        and ${opaque(sql`r.run_id = ${run} and r.service_id = v.service`)})) as "requeuedAt"`
  return readOne(db, found)
}

/** SQL: the row `r` is of one of these sources, at its service. */
const isAtSql = (places: readonly ServiceSources[]): RawBuilder<boolean> =>
  sql`((r.service_id || ' ' || r.source) = any(${places.flatMap(({ service, sources }) => sources.map((name) => `${service} ${name}`))}::text[]))`

/** The number of rows of a run that wait. */
export const countWaitingRows = async (db: Connection, run: number): Promise<number> =>
  (await readOne(db, sql<{ count: number }>`select ${waitingOfRunSql(run)} as count`)).count

export interface AwaitedJobs {
  readonly all: number
  /** Of these, jobs that are finished and left inputs without a result. */
  readonly finished: number
}

/**
 * The number of jobs whose delivery rows of a run wait for, whichever run submitted them. Reads the members of open jobs up to
 * the first that a row waits for, and not all rows that wait.
 */
export function countAwaitedJobs(
  db: Connection,
  run: number,
  unstored: readonly UnstoredRow[] = [],
): Promise<AwaitedJobs> {
  const lookups = unstored.flatMap(({ lookup }) => lookup ?? [])
  const counted = sql<AwaitedJobs>`
    select count(*) as all, count(*) filter (where j.finished_at is not null) as finished from fillrate.jobs j
     where (j.state in ('submitting', 'submitted', 'in_doubt') or j.release_at is not null)
       and exists (
         select from unnest(j.lookup_ids) as m (id)
          cross join lateral (
            select from fillrate.lookups l where l.id = m.id and ${isOpenMemberSql('j.key')} offset 0) l
         where m.id = any(${lookups}::bigint[]) or exists (
           select from fillrate.rows r where r.lookup_id = m.id and ${opaque(sql`r.run_id = ${run} and r.state = 'waiting'`)} offset 0))`
  return readOne(db, counted)
}

/** What rows of a run wait for at one of its services. */
interface WaitingCounts {
  /** Rows of this run that wait. */
  readonly mine: number
  /** Of these, those whose lookup is in a job. */
  readonly forDelivery: number
  /** Of these, rows that wait for a call that nothing has begun. */
  readonly forCall: number
  /** Of these, those whose lookup belongs to a dead run. */
  readonly abandoned: number
  /** Of these, those whose next try is so late that no run waits for it. */
  readonly later: number
  /** When the first of those is tried again. */
  readonly laterAt: Date | null
  /** Of these, those postponed because another transaction has locked them. */
  readonly locked: number
  /** Of these, rows that nothing can finish because their source is broken. */
  readonly broken: number
}

const NOTHING_WAITS: WaitingCounts = {
  mine: 0,
  forDelivery: 0,
  forCall: 0,
  abandoned: 0,
  later: 0,
  laterAt: null,
  locked: 0,
  broken: 0,
}

export interface RunWaits {
  /** By service: of every one, in one look, so that a row that goes on meanwhile is at one of them. */
  readonly at: (service: number) => WaitingCounts
  /** Rows of other running runs in the same sources. */
  readonly others: number
  /** Of these, rows that this run waits for, to take over the ones that are left. */
  readonly awaited: number
}

/** A row that waits, and is in no table. */
export interface UnstoredRow {
  readonly service: number
  readonly source: string
  readonly lookup: number | null
}

/**
 * Counts what the waiting rows of some sources wait for. Reads all rows of the runs that hold them: do not poll this often.
 * @param broken sources whose rows are neither picked again nor written
 * @param unawaited running runs that no other run waits for
 * @param unstored rows of the run
 */
export async function readWaitingCounts(
  db: Connection,
  run: number,
  sources: readonly string[],
  runningRuns: readonly number[],
  broken: readonly ServiceSources[] = [],
  unawaited: readonly number[] = [],
  unstored: readonly UnstoredRow[] = [],
): Promise<RunWaits> {
  const others = runningRuns.filter((id) => id !== run)
  const awaited = others.filter((id) => !unawaited.includes(id))
  const mine = sql`r.run_id = ${run}`
  const isBroken = sql`${isAtSql(broken)} and (l.id is null or l.state in (${ANSWERED_STATES}))`
  const later = sql`${mine} and l.state = 'pending' and l.run_id = any(${[...runningRuns]}::bigint[])
                      and l.not_before > now() + ${intervalSql(MAX_AWAITED_DELAY_MS)}`
  const stored = sql`
    select r.run_id, r.service_id, r.source, r.lookup_id, r.due_at
      from ${runsWithWaitingSql(sources)} u cross join lateral ${waitingRowsSql('u.run_id', sources)} r`
  const ofMemory = sql`
    select ${run}::bigint, v.service, v.source, v.lookup, null
      from ${recordBatch(unstored, { service: 'smallint', source: 'text', lookup: 'bigint' })}`
  const { rows } = await sql<WaitingCounts & Pick<RunWaits, 'others' | 'awaited'> & { service: number }>`
    select r.service_id as service,
           count(*) filter (where ${mine}) as mine,
           count(*) filter (where ${mine} and l.state = 'submitted') as "forDelivery",
           count(*) filter (where ${mine} and (l.id is null or l.state = 'pending') and not (${isBroken})) as "forCall",
           count(*) filter (where ${mine} and ${isOrphanedSql(runningRuns)}) as abandoned,
           count(*) filter (where ${later}) as later,
           min(l.not_before) filter (where ${later}) as "laterAt",
           count(*) filter (where ${mine} and r.due_at is not null and l.state in (${ANSWERED_STATES}) and not (${isBroken})) as locked,
           count(*) filter (where ${mine} and ${isBroken}) as broken,
           count(*) filter (where r.run_id = any(${others}::bigint[])) as others,
           count(*) filter (where r.run_id = any(${awaited}::bigint[])) as awaited
      from (${unstored.length === 0 ? stored : sql`${stored} union all ${ofMemory}`}) r
      left join fillrate.lookups l on l.id = r.lookup_id
     group by r.service_id`.execute(db)
  const sum = (of: (row: (typeof rows)[number]) => number): number =>
    rows.reduce((total, row) => total + of(row), 0)
  return {
    at: (service) => rows.find((row) => row.service === service) ?? NOTHING_WAITS,
    others: sum((row) => row.others),
    awaited: sum((row) => row.awaited),
  }
}

/** Whether a service has answered any call of a run, or accepted any job. */
export const hasAnsweredLookups = (db: Connection, { run, service }: RunService): Promise<boolean> =>
  isTrue(
    db,
    sql`exists (select from fillrate.spend where run_id = ${run} and service_id = ${service} and lookups > 0)`,
  )

/**
 * What the rows of a run needed and requested, and the results, of all its services or of one. Grouped, because that spills to disk at
 * any size; `distinct` keeps all identifiers in memory.
 * @param needed lookups that it needed for rows of which none is stored
 */
export function readLookupTotals(
  db: Connection,
  run: number,
  service: number | null = null,
  needed: readonly number[] = [],
): Promise<RunReport['lookups']> {
  const isOfService = service === null ? sql`` : sql`and service_id = ${service}`
  const totals = sql<RunReport['lookups']>`
    with needed as (
      select id from (
        select lookup_id as id from fillrate.rows where run_id = ${run} and lookup_id is not null
        union all select unnest(missed_lookup_ids) from fillrate.rows where run_id = ${run} and missed_lookup_ids is not null
        union all select unnest(${[...needed]}::bigint[])
      ) n group by id
    )
    select count(*) as distinct,
           count(*) filter (where not is_requested and state in (${ANSWERED_STATES})) as stored,
           count(*) filter (where is_requested) as requested,
           count(*) filter (where is_own and state = 'found') as found,
           count(*) filter (where is_own and state = 'not_found') as not_found,
           count(*) filter (where is_own and state = 'rejected') as rejected,
           count(*) filter (where is_own and state = 'failed') as failed,
           coalesce(sum(unconfirmed_calls) filter (where is_own), 0)::bigint as in_doubt
      from needed cross join lateral (
        select state, unconfirmed_calls, run_id is not distinct from ${run} as is_own,
               run_id is not distinct from ${run} and requested_at is not null as is_requested
          from fillrate.lookups where id = needed.id ${isOfService} offset 0) l`
  return readOne(db, totals)
}

/** A row with the answer to its lookup, as it would be claimed with these inputs. */
interface SampledAnswer extends AnsweredRow {
  readonly kind: LookupKind
}

/** Unstored rows of a source whose lookup is answered. */
export async function readSampledAnswers(
  db: Connection,
  source: string,
  sampled: readonly { readonly key: string; readonly inputHash: string; readonly lookup: number | null }[],
): Promise<SampledAnswer[]> {
  const hash = sql`v."inputHash"::bigint`
  const { rows } = await sql<WithText<SampledAnswer, 'record' | 'written' | 'earlier'>>`
    select v.key, v."inputHash", null as run, ${lastWrittenWithSql(hash)}::text as written,
           ${earlierWritesWithSql(hash)}::text as earlier, l.id as lookup, l.kind, l.state, l.reason, l.record::text,
           l.confidence, l.refresh_at as "dueAt"
      from ${recordBatch(sampled, { key: 'text', inputHash: 'text', lookup: 'bigint' })}
      join fillrate.lookups l on l.id = v.lookup
      left join fillrate.rows r on r.source = ${source} and r.key = v.key
     where ${opaque(sql`l.state in (${ANSWERED_STATES})`)}`.execute(db)
  return parseColumns(rows, ['record', 'written', 'earlier'])
}

/** Which of some lookups are awaited no more: they are answered, or were deleted. */
export async function listSettled(db: Connection, ids: readonly number[]): Promise<ReadonlySet<number>> {
  const { rows } = await sql<{ id: number }>`
    select v.id from unnest(${[...ids]}::bigint[]) as v (id)
      left join lateral (select state from fillrate.lookups where id = v.id offset 0) l on true
     where l.state is null or l.state in (${ANSWERED_STATES})`.execute(db)
  return new Set(rows.map(({ id }) => id))
}
