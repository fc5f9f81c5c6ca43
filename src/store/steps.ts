import { sql } from 'kysely'
import type { ServiceTurn } from '../domain/mapping.ts'
import { statesThatGoOn } from '../domain/step.ts'
import type { RunService } from './pending-lookups.ts'
import { opaque } from './sql.ts'
import { isHeldSql, serviceNumberSql } from './terms.ts'
import type { Connection, Tx } from './transaction.ts'

/**
 * Hands finished rows on to the next service, within their run: each waits there to be picked again. A run that has ended leaves it to
 * the next pass (`resumeAtLaterStep`). A row whose run does not call that service stays finished. Call it in the transaction that finishes
 * them.
 */
export async function moveToNextStep(
  tx: Tx,
  source: string,
  keys: readonly string[],
  { next }: ServiceTurn,
): Promise<void> {
  if (next === null || keys.length === 0) return
  await sql`
    update fillrate.rows r
       set state = 'waiting', failure = null, reason = null, service_id = next.id, settled_at = null, due_at = null,
           only_blanks = r.only_blanks or r.state in ('enriched', 'unchanged'),
           missed_lookup_ids = case when r.lookup_id is null then r.missed_lookup_ids else r.missed_lookup_ids || r.lookup_id end,
           lookup_id = null
      from (select ${serviceNumberSql(next.service)} as id) next join fillrate.runs own on own.scopes ? next.id::text
     where r.source = ${source} and r.key = any(${[...keys]}::text[]) and own.id = r.run_id
       and ${opaque(sql`r.state = any(${[...statesThatGoOn(next.when)]}::text[]) and r.input_hash is not null`)}`.execute(
    tx,
  )
}

/**
 * Lets rows that an ended run left waiting at a later service go on there, in this run. What services before have found and written
 * decides about the next one, and is known only on the way.
 * @param services those of the source, in their order
 * @returns their keys
 */
export async function resumeAtLaterStep(
  tx: Tx,
  source: string,
  keys: readonly string[],
  { run, service, services }: RunService & Pick<ServiceTurn, 'services'>,
): Promise<string[]> {
  if (keys.length === 0) return []
  const { rows } = await sql<{ key: string }>`
    update fillrate.rows r set run_id = ${run}, lookup_id = null, reason = null, due_at = null
      from fillrate.runs own
     where r.source = ${source} and r.key = any(${[...keys]}::text[]) and ${opaque(sql`r.state = 'waiting'`)}
       and r.service_id <> ${service} and own.id = ${run} and own.scopes ? r.service_id::text
       and r.service_id in (select id from fillrate.services where name = any(${[...services]}::text[]))
       and not exists (select from fillrate.runs u where u.id = r.run_id and u.state = 'running' and ${isHeldSql(sql`u.leased_until`)})
    returning r.key`.execute(tx)
  return rows.map(({ key }) => key)
}

/** Lets rows whose inputs have changed since they were handed on begin anew, with the first service. */
export async function beginAnew(
  tx: Tx,
  source: string,
  keys: readonly string[],
  { services }: Pick<ServiceTurn, 'services'>,
): Promise<void> {
  const [first] = services
  if (keys.length === 0 || first === undefined) return
  await sql`
    update fillrate.rows set service_id = ${serviceNumberSql(first)}, missed_lookup_ids = null, only_blanks = false
     where source = ${source} and key = any(${[...keys]}::text[]) and ${opaque(sql`is_requeued`)}`.execute(tx)
}

/** Gives rows that `remap` has written their lookups back, in their order (`remap.ts:requeueForRecord`). */
export async function restoreLookups(
  tx: Connection,
  source: string,
  finished: readonly { readonly key: string; readonly isRemapped?: boolean }[],
): Promise<void> {
  const keys = finished.filter(({ isRemapped }) => isRemapped === true).map(({ key }) => key)
  if (keys.length === 0) return
  const last = sql`missed_lookup_ids[cardinality(missed_lookup_ids)]`
  await sql`
    update fillrate.rows
       set lookup_id = case when state <> 'waiting' then ${last} end,
           missed_lookup_ids = nullif(missed_lookup_ids[:cardinality(missed_lookup_ids) - 1], '{}')
     where source = ${source} and key = any(${keys}::text[])`.execute(tx)
}
