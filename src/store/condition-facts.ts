import { type RawBuilder, sql } from 'kysely'
import type { DatabaseOutage } from '../domain/condition.ts'
import { QUEUED_REASON, ScheduledRun } from '../domain/schedule.ts'
import { type DayUsage, readDayBudget } from './budgets.ts'
import {
  actorsSql,
  causesSql,
  circuitSql,
  explainedUntilSql,
  failedRunsSql,
  IS_ABOUT_SOURCE,
  msSql,
  throttledSql,
  WEEK,
} from './condition-services.ts'
import { jsonBatch } from './sql.ts'
import { isHeldSql, isPausedSql, queuedChangesSql } from './terms.ts'
import type { Connection } from './transaction.ts'

/** What the reader of conditions knows and Postgres does not. */
export interface Observer {
  /**
   * The schedules of the configuration, and when each was due last, in milliseconds since the epoch. Null:
   * unknown.
   */
  readonly schedules: ReadonlyMap<string, number | null> | null
  /** What keeps it from writing to Postgres: no process can store that. Absent or null: nothing. */
  readonly outage?: DatabaseOutage | null
}

/** What comes and goes within seconds is one condition; its end is seen within ten. A process knows itself when Postgres is back. */
const HOLD = sql`interval '6 seconds'`
/** A scheduled run starts within a second; a queued one waits for another run of its sources. */
const LATE = sql`interval '5 minutes'`
const LATE_IN_QUEUE = sql`interval '30 minutes'`
/** A changed row is picked within a second; an import is picked in parts, after everything else. */
const BEHIND = sql`interval '2 minutes'`
const IMPORT_BEHIND = sql`interval '60 minutes'`
/** Fewer rejected rows may be odd ones. */
const MIN_REJECTED = 5
/** This many are worth a look, whatever their share. */
const MANY_REJECTED = 1_000
/** One in this many is a notable share. */
const NOTABLE_ONE_IN = 20

const NO_DAEMON = sql`case when not daemon.is_alive then 'no daemon is running' end`

/** SQL: the CTE `late_schedule`: scheduled runs that have not started, with since when and after how long that matters. */
const lateSchedulesSql = ({ schedules }: Observer) => sql`
  due as (
    select d.schedule,
           to_timestamp(d.at / 1000) as at
      from jsonb_to_recordset(${jsonBatch(toList(schedules))}) as d (schedule text, at float8)
  ), latest as (
    select distinct on (s.schedule) s.*,
           coalesce(${isHeldSql(sql`s.leased_until`)}, false) as is_held
      from fillrate.scheduled_runs s
     where s.at between now() - ${WEEK} and now()
       and (${schedules === null} or s.schedule in (select schedule from due))
     order by s.schedule, s.at desc
  ), late_schedule as (
    select 'schedule' as cause,
           l.schedule as source,
           w.since,
           case
             when l.state = ${ScheduledRun.waiting}
              and l.reason = ${QUEUED_REASON}
              and daemon.is_alive then ${LATE_IN_QUEUE}
             else ${LATE}
           end as allowed,
           ${explainedUntilSql(sql`false`)} as explained,
           coalesce(${NO_DAEMON}, w.reason) as reason,
           null::bigint as waiting
      from latest l
     cross join daemon
      left join due
        on due.schedule = l.schedule
     cross join lateral (
       select case
                when l.state = ${ScheduledRun.waiting} then l.at
                when l.state = ${ScheduledRun.running} and not l.is_held then l.at
                when l.state <> ${ScheduledRun.running} and due.at > l.at then due.at
              end as since,
              case l.state
                when ${ScheduledRun.waiting} then l.reason
                when ${ScheduledRun.running} then 'its process died, and no other has taken over'
                else 'no process has started it'
              end as reason
     ) w
  )`

const toList = (schedules: Observer['schedules']) =>
  [...(schedules ?? [])].map(([schedule, at]) => ({ schedule, at }))

/**
 * SQL: the CTE `late`: a scheduled run that has not started, and what live sync has not picked, counted
 * anew from the end of what explains it, as that takes its time to be made up for. Without a daemon all
 * wait for the same: the gravest and oldest speaks for all.
 */
const lateSql = (isBudgetSpent: boolean) => sql`
  waiting_changes as (
    select q.source,
           q.is_import,
           q.rows,
           q.oldest_at
      from ${queuedChangesSql} q
     where not ${isPausedSql(sql`q.source`)}
  ), late_changes as (
    select 'live_sync' as cause,
           q.source,
           min(q.oldest_at) as since,
           interval '0' as allowed,
           '-infinity'::timestamptz as explained,
           min(${NO_DAEMON}) as reason,
           (
             select sum(rows)::bigint
               from waiting_changes a
              where a.source = q.source
           ) as waiting
      from waiting_changes q
     cross join daemon
     where not ${isBudgetSpent}::boolean
       and greatest(q.oldest_at, ${explainedUntilSql(IS_ABOUT_SOURCE)})
             < now() - case when q.is_import then ${IMPORT_BEHIND} else ${BEHIND} end
     group by q.source
  ), late as (
    select 'late' as kind,
           null as service,
           l.source,
           l.since,
           jsonb_build_object(
             'cause', l.cause,
             'ms', ${msSql(sql`now() - l.since`)},
             'reason', l.reason,
             'waiting', l.waiting
           ) as details
      from (
        select a.*,
               row_number() over (order by a.cause desc, a.since) as n
          from (
            select * from late_schedule
            union all
            select * from late_changes
          ) a
         where a.since is not null
           and greatest(a.since, a.explained) < now() - a.allowed
      ) l
     cross join daemon
     where daemon.is_alive
        or l.n = 1
  )`

/**
 * SQL: the CTE `writes_rejected`: sources of which a notable share of rows is rejected, of one run, or of
 * the latest together, because runs of live sync have few rows each. Reads a bounded number of rows.
 */
const rejectedSql = sql`
  writes_rejected as (
    select 'writes_rejected' as kind,
           null as service,
           r.source,
           latest.since,
           jsonb_build_object('waiting', r.rows, 'reason', latest.reason) as details
      from (
        select source,
               sum(rows)::bigint as rows
          from fillrate.row_counts
         where state = 'write_rejected'
         group by source
        having sum(rows) >= ${MIN_REJECTED}
      ) r
     cross join lateral (
       with rejected as materialized (
         select run_id,
                reason,
                settled_at
           from fillrate.rows
          where source = r.source
            and failure = 'write_rejected'
            and run_id >= (
              select min(id)
                from fillrate.runs
               where started_at > now() - ${WEEK}
            )
          order by run_id desc
          limit ${MANY_REJECTED}
       ), by_run as (
         select run_id,
                count(*) as rejected,
                min(settled_at) as since
           from rejected
          group by run_id
       ), counted as (
         select by_run.*,
                (
                  select count(*)
                    from (
                      select
                        from fillrate.changes c
                       where c.run_id = by_run.run_id
                         and c.source = r.source
                       limit case
                               when rejected < ${MANY_REJECTED}
                                 then rejected * ${NOTABLE_ONE_IN}
                               else 0
                             end
                    ) c
                ) as written
           from by_run
       ), summed as (
         select *,
                sum(rejected) over latest as all_rejected,
                sum(written) over latest as all_written
           from counted
         window latest as (order by run_id desc)
       )
       select min(since) as since,
              (
                select mode() within group (order by reason)
                  from rejected
              ) as reason
         from summed
        where rejected >= ${MANY_REJECTED}
           or all_rejected >= ${MANY_REJECTED}
           or rejected >= ${MIN_REJECTED}
          and rejected * ${NOTABLE_ONE_IN} >= rejected + written
           or all_rejected >= ${MIN_REJECTED}
          and all_rejected * ${NOTABLE_ONE_IN} >= all_rejected + all_written
     ) latest
     where latest.since is not null
  )`

/**
 * SQL: the CTEs `jobs_overdue`, `budget_used` and `database_away`. An expired job is forgotten after a day, or with the next delivery.
 * A budget below the backlog is a choice: only edits may not wait for it.
 */
const restSql = (isBudgetSpent: boolean, bound: DayUsage['bound']) => sql`
  jobs_overdue as (
    select 'jobs_overdue' as kind,
           s.name as service,
           null as source,
           min(j.deadline_at) as since,
           jsonb_build_object('waiting', count(*), 'cause', max(cause)) as details
      from (
        select deadline_at, service_id, null as cause
          from fillrate.jobs
         where state in ('submitted', 'in_doubt')
           and deadline_at < now()
        union all
        select finished_at, service_id, 'unread'
          from fillrate.jobs
         where state = 'unread'
        union all
        select deadline_at, service_id, null
          from fillrate.jobs
         where state = 'expired'
           and finished_at > now() - interval '1 day'
           and finished_at > coalesce((select max(received_at) from fillrate.deliveries), '-infinity')
      ) j
      left join service s
        on s.id = j.service_id
     group by s.name
  ), budget_used as (
    select 'budget_used' as kind,
           null as service,
           null as source,
           now() as since,
           jsonb_build_object(
             'limit', ${bound?.limit ?? null}::float8,
             'unit', ${bound?.isInCredits === true ? 'credits' : null}::text,
             'waiting', w.edits,
             'until', date_trunc('day', now() at time zone 'UTC') at time zone 'UTC' + interval '1 day'
           ) as details
      from (
       select sum(rows)::bigint as edits
         from waiting_changes
        where not is_import
     ) w
     where w.edits > 0
       and ${isBudgetSpent}::boolean
  ), database_away as (
    select 'database_away' as kind,
           null as service,
           null as source,
           refused_at as since,
           jsonb_build_object('sqlstate', refused) as details
      from alive
     where refused_at > now() - interval '10 seconds'
    union all
    select 'database_away',
           null,
           null,
           since,
           details
      from known_outage
  )`

const OBSERVED = [
  'circuit',
  'throttled',
  'run_failed',
  'late',
  'writes_rejected',
  'jobs_overdue',
  'budget_used',
  'database_away',
].map((kind) => sql`select * from ${sql.ref(kind)}`)

/**
 * SQL: what holds now, with the `id` of its record (null: there is none yet): what Postgres shows, what a
 * part of the program has reported and not ended, and what was seen a moment ago. A process that does not
 * know its schedules yet does not see that one is late any more. The one definition of every condition.
 */
export async function shownSql(db: Connection, observer: Observer): Promise<RawBuilder<unknown>> {
  const { bound, spent } = await readDayBudget(db)
  const isBudgetSpent = bound !== null && bound.limit !== null && spent >= bound.limit
  const facts = [
    actorsSql,
    circuitSql,
    causesSql(observer.outage ?? null),
    throttledSql,
    failedRunsSql,
    lateSchedulesSql(observer),
    lateSql(isBudgetSpent),
    rejectedSql,
    restSql(isBudgetSpent, bound),
  ]
  return sql`
    with ${sql.join(facts)}, observed as (
      select distinct on (kind, service, source) kind,
             service,
             source,
             least(since, now()) as since,
             jsonb_strip_nulls(details) as details
        from (${sql.join(OBSERVED, sql` union all `)}) c
       order by kind, service, source, since
    ), recorded as (
      select *
        from fillrate.conditions
       where ended_at is null
    ), shown as (
      select r.id,
             coalesce(r.kind, o.kind) as kind,
             coalesce(r.service, o.service) as service,
             coalesce(r.source, o.source) as source,
             coalesce(r.began_at, o.since) as since,
             o.kind is not null as is_observed,
             case
               when o.kind is null or r.is_reported then r.details
               else o.details
             end as details
        from observed o
        full join recorded r
          on r.kind = o.kind
         and coalesce(r.service, '') = coalesce(o.service, '')
         and coalesce(r.source, '') = coalesce(o.source, '')
       where o.kind is not null
          or r.is_reported
          or ${observer.schedules === null} and r.details ->> 'cause' = 'schedule'
          or r.kind <> 'database_away'
         and r.seen_at > now() - ${HOLD}
    )`
}
