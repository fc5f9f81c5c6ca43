import { sql, type RawBuilder } from 'kysely'
import type { RetiredSource } from '../domain/report/status.ts'
import { FAILURE_STATES, Row } from '../domain/row.ts'
import { ALIVE_FOR, failureSql, IS_RUNNING } from './terms.ts'
import type { Connection, Tx } from './transaction.ts'
import { withdrawLookups } from './pending-lookups.ts'

/** Names of which something is kept that the work on a source needs, and which are not configured. */
export async function listRetiredSources(
  db: Connection,
  configured: readonly string[],
): Promise<RetiredSource[]> {
  const { rows } = await sql<RetiredSource>`
    with counted as (
      select source, sum(rows)::bigint as rows, coalesce(sum(rows) filter (where state = 'waiting'), 0)::bigint as waiting,
             coalesce(sum(rows) filter (where state = any(${[...FAILURE_STATES]}::text[])), 0)::bigint as failed
        from fillrate.row_counts group by source having sum(rows) <> 0
    ), deleted as (select source, count(*) as rows from fillrate.rows where deleted_at is not null group by source)
    select source,
           coalesce(c.rows, 0) as rows,
           coalesce(c.waiting, 0) as waiting,
           coalesce(c.failed, 0) as failed,
           coalesce(d.rows, 0) as deleted
      from counted c full join deleted d using (source)
      full join (select source from fillrate.source_state where paused_at is not null) paused using (source)
     where source <> all(${[...configured]}::text[]) order by source`.execute(db)
  return rows
}

/** The run of a living process that works on a source; null: none does. */
export async function findRunOf(db: Connection, source: string): Promise<number | null> {
  const { rows } = await sql<{ id: number }>`
    select id from fillrate.runs where ${source} = any(sources) and ${IS_RUNNING} order by id
     limit 1`.execute(db)
  return rows[0]?.id ?? null
}

/** A process that still has a source in its configuration, as `host (pid)`; null: none has. */
export async function findProcessOf(db: Connection, source: string): Promise<string | null> {
  const { rows } = await sql<{ process: string }>`
    select format('%s on %s (process %s)', role, host, pid) as process from fillrate.processes
     where seen_at > now() - ${ALIVE_FOR} and config -> 'sources' ? ${source}
     order by started_at limit 1`.execute(db)
  return rows[0]?.process ?? null
}

/**
 * Ends rows that wait, of sources that no process has had in its configuration for seven days. Lookups that only waited for them,
 * and were never requested, are withdrawn as for deleted rows. Configured again, such a row is due at once.
 * @returns how many rows, at most `limit`
 */
export async function endRowsOfLeftSources(tx: Tx, limit: number): Promise<number> {
  const { rows } = await sql<{ lookup: number | null }>`
    update fillrate.rows set state = ${Row.failed}, failure = ${failureSql(sql`${Row.failed}`)}, reason = 'its source is no longer in the configuration',
           settled_at = now(), due_at = now()
     where ctid = any(array(
       select r.ctid from fillrate.source_state c join fillrate.rows r using (source)
        where c.configured_at < now() - interval '7 days' and r.state = ${Row.waiting}
          and (select sum(n.rows) from fillrate.row_counts n where n.source = c.source and n.state = ${Row.waiting}) > 0
        limit ${limit} for update of r skip locked))
    returning lookup_id as lookup`.execute(tx)
  const lookups = rows.map(({ lookup }) => lookup)
  await withdrawLookups(tx, lookups)
  return rows.length
}

type Sql = RawBuilder<unknown>

/**
 * Gives all that is kept of a source another name, mostly one statement a table. What the audit list and notifications say stays as it
 * was said. `to` must have no rows; what it spent before is added up.
 */
export async function renameStoredSource(tx: Tx, from: string, to: string): Promise<void> {
  const names: Names = { from: sql`${from}::text`, to: sql`${to}::text` }
  await renameRows(tx, names)
  await renameRuns(tx, names)
  await renameRest(tx, names)
}

/** Gives recorded changes another name, once no trigger records them under the old one. */
export async function renameChanges(tx: Tx, from: string, to: string): Promise<void> {
  for (const table of ['changed_rows', 'changed_rows_spare'])
    await sql`update ${sql.id('fillrate', table)} set source = ${to} where source = ${from}`.execute(tx)
}

interface Names {
  readonly from: Sql
  readonly to: Sql
}

async function renameRows(tx: Tx, { from, to }: Names): Promise<void> {
  // Its trigger moves the counts.
  await sql`update fillrate.rows set source = ${to} where source = ${from}`.execute(tx)
  for (const table of ['skipped_cells', 'changes', 'spend'])
    await sql`update ${sql.id('fillrate', table)} set source = ${to} where source = ${from}`.execute(tx)
  // Of an answered lookup it is read no more: a new request sets it again. To write millions of records anew would take long.
  await sql`update fillrate.lookups set source = ${to} where source = ${from} and resolved_at is null`.execute(
    tx,
  )
  // A pause counts under either name.
  await sql`
    update fillrate.source_state s
       set paused_at = n.paused_at, paused_by = n.paused_by, pause_reason = n.pause_reason
      from fillrate.source_state n where s.source = ${from} and n.source = ${to}
       and n.paused_at is not null`.execute(tx)
  const known = sql`exists (select from fillrate.source_state where source = ${from})`
  await sql`delete from fillrate.source_state where source = ${to} and ${known}`.execute(tx)
  await sql`
    update fillrate.source_state set source = ${to}
     where source = ${from}
       and not exists (select from fillrate.source_state where source = ${to})`.execute(tx)
}

async function renameRuns(tx: Tx, names: Names): Promise<void> {
  const { from } = names
  const inTotals = (key: string, rename: (value: Sql, names: Names) => Sql): Sql => sql`
    case when totals ? ${sql.lit(key)} then jsonb_build_object(${sql.lit(key)}::text, ${rename(sql`(totals -> ${sql.lit(key)})`, names)}) else '{}' end`
  await sql`
    update fillrate.runs
       set sources = ${inArraySql(sql`sources`, names)},
           totals = totals || ${inTotals('rows_by_source', keySql)} || ${inTotals('unread_over_budget', listSql)}
                           || ${inTotals('unread_sources', listSql)} || ${inTotals('skipped_cells', cellsSql)}
                           || ${inTotals('fill_rates', keySql)}
     where ${from} = any(sources)`.execute(tx)
  await sql`
    update fillrate.scheduled_runs s
       set sources = ${inArraySql(sql`sources`, names)},
           schedule = case when request is null and not exists (
             select from fillrate.scheduled_runs t where t.at = s.at and t.schedule = ${scheduleSql(sql`s.schedule`, names)}
           ) then ${scheduleSql(sql`schedule`, names)} else schedule end,
           request = case when request #> '{work,sources}' ? ${from}
             then jsonb_set(request, '{work,sources}', ${listSql(sql`request #> '{work,sources}'`, names)}) else request end
     where ${from} = any(sources)`.execute(tx)
  await sql`
    update fillrate.jobs set members_by_source = ${addedKeySql(sql`members_by_source`, names)},
           credits_by_source = ${addedKeySql(sql`credits_by_source`, names)}
     where members_by_source ? ${from}`.execute(tx)
}

async function renameRest(tx: Tx, names: Names): Promise<void> {
  const { from, to } = names
  // A source, several of them or a schedule. One that is open under the new name too ends when it is not seen again.
  const renamed = sql`case when details ->> 'cause' = 'schedule' then ${scheduleSql(sql`c.source`, names)}
    else array_to_string(array_replace(string_to_array(c.source, ', '), ${from}, ${to}), ', ') end`
  await sql`
    update fillrate.conditions c
       set source = ${renamed},
           details = case when details ? 'sources'
             then details || jsonb_build_object('sources', ${listSql(sql`(details -> 'sources')`, names)}) else details end
     where (details -> 'sources' ? ${from} or ${renamed} <> c.source)
       and not (ended_at is null and ${renamed} <> c.source and exists (
         select from fillrate.conditions o where o.ended_at is null and o.kind = c.kind and o.source = ${renamed}))`.execute(
    tx,
  )
}

const inArraySql = (array: Sql, { from, to }: Names): Sql =>
  sql`case when ${to} = any(${array}) then array_remove(${array}, ${from}) else array_replace(${array}, ${from}, ${to}) end`

/** The name of a schedule ends with its sources. */
const scheduleSql = (schedule: Sql, { from, to }: Names): Sql => {
  const tail = sql`substring(${schedule} from '[^| ]*$')`
  return sql`(left(${schedule}, length(${schedule}) - length(${tail}))
    || array_to_string(array_replace(string_to_array(${tail}, ','), ${from}, ${to}), ','))`
}

/** An object whose keys are sources. */
const keySql = (object: Sql, { from, to }: Names): Sql =>
  sql`case when ${object} ? ${from} then ${object} - ${from} || jsonb_build_object(${to}, ${object} -> ${from}) else ${object} end`

/** The same, of numbers: what both names have is added up. */
const addedKeySql = (object: Sql, { from, to }: Names): Sql => sql`
  case when ${object} ? ${from} then ${object} - ${from} || jsonb_build_object(${to},
    coalesce((${object} ->> ${to})::numeric, 0) + (${object} ->> ${from})::numeric) else ${object} end`

const listSql = (list: Sql, { from, to }: Names): Sql => sql`
  (select coalesce(jsonb_agg(case when x = to_jsonb(${from}) then to_jsonb(${to}) else x end order by n), '[]')
     from jsonb_array_elements(${list}) with ordinality as e (x, n))`

const cellsSql = (cells: Sql, { from, to }: Names): Sql => sql`
  (select coalesce(jsonb_agg(case when x ->> 'source' = ${from} then x || jsonb_build_object('source', ${to}) else x end order by n), '[]')
     from jsonb_array_elements(${cells}) with ordinality as e (x, n))`
