import { type RawBuilder, sql } from 'kysely'
import type { Tx } from './transaction.ts'

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
  // What a process with the new name has recorded says nothing of a pass. A pause counts under either name.
  await sql`
    update fillrate.source_state s
       set paused_at = n.paused_at, paused_by = n.paused_by, pause_reason = n.pause_reason, resume_at = n.resume_at
      from fillrate.source_state n where s.source = ${from} and n.source = ${to}
       and n.paused_at is not null`.execute(tx)
  const known = sql`exists (select from fillrate.source_state where source = ${from})`
  await sql`delete from fillrate.source_state where source = ${to} and mapping_hash is null and ${known}`.execute(
    tx,
  )
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
           bound = bound || jsonb_build_object('sources', ${keySql(sql`(bound -> 'sources')`, names)}),
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
