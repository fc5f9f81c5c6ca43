import { type RawBuilder, sql } from 'kysely'
import type { DatabaseOutage } from '../domain/condition.ts'
import { intervalSql } from './sql.ts'
import { ALIVE_FOR } from './terms.ts'

// The facts from which conditions are found that are about a service or explain others: the first CTEs of the one
// statement that `condition-facts.ts` makes.

/** The latest runs that are searched for failed ones. */
const MAX_RUNS = 200
/** For how long what happened matters. */
export const WEEK = sql`interval '7 days'`
/**
 * A leader that was killed is replaced this soon after its lease has expired; what it reported last holds
 * until its successor reports.
 */
const SUCCEEDED_WITHIN = sql`interval '3 seconds'`
const REPORT_HOLDS_FOR = sql`interval '10 seconds'`

/** SQL: a duration in milliseconds. */
export const msSql = (interval: RawBuilder<unknown>) => sql`(extract(epoch from ${interval}) * 1000)::float8`

/**
 * SQL: the CTEs `alive`, `daemon`, `configured`, `service`: who there is, which of several services each
 * source of a living process uses, and how many rows of its sources wait for each.
 */
export const actorsSql = sql`
  alive as (
    select role, refused, refused_at, config
      from fillrate.processes
     where seen_at > now() - ${ALIVE_FOR}
  ), daemon as (
    select exists (
             select
               from alive
              where role = 'start'
           ) as is_alive
  ), configured as (
    select distinct c.key as source,
           u.service
      from alive
     cross join lateral jsonb_each(config -> 'sources') c
      left join lateral jsonb_array_elements_text(c.value #> '{step,services}') u (service)
        on true
  ), service as (
    select s.id,
           n.name,
           w.waiting
      from fillrate.services s
     cross join lateral (
       select coalesce(s.name, s.host) as name
     ) n
     cross join lateral (
       select coalesce(sum(rows), 0)::bigint as waiting
         from fillrate.row_counts r
        where r.state = 'waiting'
          and (
            not exists (select from configured)
            or exists (
              select
                from configured c
               where c.source = r.source
                 and coalesce(c.service, n.name) = n.name
            )
          )
     ) w
  )`

const LATEST_RUNS = sql`(
  select coalesce(max(id), 0) - ${MAX_RUNS}
    from fillrate.runs
)`

/**
 * SQL: the CTE `circuit`: services that answer nothing. An open circuit that no process probes any more
 * says what was, unless a run has failed for it: then it is not over before the next one. Neither credits
 * nor keys come back by themselves.
 */
export const circuitSql = sql`
  circuit as (
    select case
             when c.cause in ('key_refused', 'out_of_credits') then c.cause
             else 'service_failing'
           end as kind,
           s.name as service,
           null as source,
           c.opened_at as since,
           jsonb_build_object(
             'cause', c.cause,
             'reason', c.reason,
             'waiting', s.waiting,
             'until', c.probe_at
           ) as details
      from fillrate.circuit_breakers c
      join service s
        on s.id = c.service_id
     where case
             when c.cause in ('key_refused', 'out_of_credits')
               then c.probe_at > now() - ${WEEK}
             else c.probe_at > now() - interval '2 minutes'
               or exists (
                 select
                   from fillrate.leases l
                  where l.scope = c.scope
                    and l.leased_until > now() - ${SUCCEEDED_WITHIN}
               )
               or exists (
                 select
                   from fillrate.runs f
                  where f.id > ${LATEST_RUNS}
                    and f.state = 'failed'
                    and f.trigger <> 'manual'
                    and f.failed_for = 'service_failing'
                    and f.failed_scope = c.scope
                    and f.finished_at >= c.opened_at
               )
           end
  )`

/**
 * SQL: the CTE `cause`: what explains a run that failed and what is late, while it holds and from what it
 * has delayed: of a service, of a source, or Postgres itself. And `known_outage`: what the reader knows of
 * Postgres, or no row.
 */
export const causesSql = (outage: DatabaseOutage | null) => sql`
  known_outage as (
    select now() - ${intervalSql(outage?.forMs ?? 0)} as since,
           ${JSON.stringify(outage?.details ?? {})}::jsonb as details
     where ${outage !== null}::boolean
  ), cause as (
    select kind,
           service,
           source,
           since as began,
           'infinity'::timestamptz as ended
      from circuit
    union all
    select 'database_away',
           null,
           null,
           since,
           'infinity'
      from known_outage
    union all
    select kind,
           service,
           source,
           began_at,
           coalesce(ended_at, 'infinity')
      from fillrate.conditions
     where began_at > now() - ${WEEK}
       and case kind
             when 'throttled' then details ->> 'cause' in ('banned', 'shared_key')
             else kind in (
               'database_away',
               'service_failing',
               'key_refused',
               'out_of_credits',
               'source_broken'
             )
           end
  )`

/** SQL: when what explains a symptom was over last; `infinity`: it holds. */
export const explainedUntilSql = (about: RawBuilder<boolean>) => sql`
  coalesce((
    select max(ended)
      from cause
     where kind = 'database_away'
        or ${about}
  ), '-infinity')`

/** SQL: whether a cause is about the source `q.source`: itself, or a service that it uses. */
export const IS_ABOUT_SOURCE = sql<boolean>`
  source = q.source
  or service is not null
  and coalesce((
    select bool_or(coalesce(c.service, cause.service) = cause.service)
      from configured c
     where c.source = q.source
  ), true)`

/** SQL: the CTE `throttled`, as leaders report it. Calls that wait for less than ten seconds, or one window, are as usual. */
export const throttledSql = sql`
  reported as (
    select r.service_id,
           r.status,
           m.stalled,
           m.usual,
           r.status ->> 'stallReason' is not null
             and m.stalled >= m.usual as is_stalled
      from fillrate.leases l
      join fillrate.rate_limits r
        on r.scope = l.scope
       and r.reported_at >= l.acquired_at - ${REPORT_HOLDS_FOR}
     cross join lateral (
       select coalesce((r.status ->> 'stalledForMs')::float8, 0) as stalled_ms,
              coalesce((r.status ->> 'windowMs')::float8, 0) as window_ms
     ) t
     cross join lateral (
       select t.stalled_ms * interval '1 ms' as stalled,
              least(600000, greatest(10000, t.window_ms * 1.25)) * interval '1 ms' as usual
     ) m
     where l.leased_until > now() - ${SUCCEEDED_WITHIN}
  ), throttled as (
    select 'throttled' as kind,
           s.name as service,
           null as source,
           case c.cause
             when 'limit' then now() - r.stalled
             else now()
           end as since,
           jsonb_build_object('cause', c.cause, 'waiting', s.waiting)
             || case
                  when r.is_stalled then jsonb_build_object(
                    'ms', ${msSql(sql`r.stalled`)},
                    'reason', case c.cause when 'limit' then r.status ->> 'stallReason' end,
                    'until', c.until
                  )
                  else '{}'
                end as details
      from service s
      join reported r
        on r.service_id = s.id
     cross join lateral (
       select case
                when r.status ->> 'state' = 'banned' then 'banned'
                when (r.status ->> 'sharedKey')::boolean then 'shared_key'
                when r.is_stalled
                 and ${explainedUntilSql(sql`service = s.name`)} < now() - r.usual
                  then 'limit'
              end as cause,
              case
                when (r.status ->> 'nextWindowAt')::float8 between 0 and 1e13
                  then to_timestamp((r.status ->> 'nextWindowAt')::float8 / 1000)
              end as until
     ) c
     where c.cause is not null
  )`

/**
 * SQL: the CTE `run_failed`: the latest failed run of each set of sources that no user has started, unless
 * each of its sources has ended another run since, or was written. One that failed for a condition is part
 * of that, which is known within seconds.
 */
export const failedRunsSql = sql`
  failed as (
    select distinct on (r.sources) r.*,
           (
             select s.name
               from service s
              where r.scopes ->> s.id::text = r.failed_scope
                and r.failed_for <> 'database_away'
              limit 1
           ) as service
      from fillrate.runs r
     where r.id > ${LATEST_RUNS}
       and r.started_at > now() - ${WEEK}
       and r.state = 'failed'
       and r.trigger <> 'manual'
     order by r.sources, r.id desc
  ), run_failed as (
    select 'run_failed' as kind,
           f.service,
           array_to_string(f.sources, ', ') as source,
           f.finished_at as since,
           jsonb_build_object('run', f.id, 'reason', f.reason) as details
      from failed f
     where (
             f.failed_for is null
             or f.finished_at < now() - interval '10 seconds'
             and not exists (
               select
                 from cause
                where (
                        kind = 'database_away'
                        or service = f.service
                        or kind = 'source_broken'
                        and source = any(f.sources)
                      )
                  and began <= f.finished_at + interval '10 seconds'
                  and ended >= f.finished_at - interval '10 seconds'
             )
           )
       and exists (
             select
               from unnest(f.sources) source
              where not exists (
                      select
                        from fillrate.runs later
                       where later.id > ${LATEST_RUNS}
                         and source = any(later.sources)
                         and later.options -> 'undoes' is null
                         and later.options -> 'dry' is distinct from 'true'
                         and later.state <> 'failed'
                         and f.finished_at < greatest(
                               case when later.state = 'completed' then later.finished_at end,
                               (
                                 select written_at
                                   from fillrate.changes c
                                  where c.run_id = later.id
                                    and c.source = source
                                  order by id desc
                                  limit 1
                               )
                             )
                    )
           )
  )`
