import { sql } from 'kysely'
import { handedOnStates } from '../domain/hand-on.ts'
import type { ServiceTurn } from '../domain/mapping.ts'
import { serviceNumberSql } from './services.ts'
import { opaque } from './sql.ts'
import type { Connection, Tx } from './transaction.ts'

/**
 * Hands finished rows on to the next service: each waits for the run that was started together with its own for that service,
 * which picks it next. A run that has ended leaves it to the next pass (`resumeHandedOn`). A row whose run is alone stays finished.
 * Call it in the transaction that finishes them.
 */
export async function handOnRows(
  tx: Tx,
  source: string,
  keys: readonly string[],
  { next }: ServiceTurn,
): Promise<void> {
  if (next === null || keys.length === 0) return
  await sql`
    update fillrate.rows r
       set state = 'waiting', failure = null, reason = null, run_id = next.id, settled_at = null, due_at = null,
           only_blanks = r.only_blanks or r.state in ('enriched', 'unchanged'),
           missed_lookup_ids = case when r.lookup_id is null then r.missed_lookup_ids else r.missed_lookup_ids || r.lookup_id end,
           lookup_id = null
      from fillrate.runs own join fillrate.runs next on next.group_id = own.group_id
     where r.source = ${source} and r.key = any(${[...keys]}::text[]) and own.id = r.run_id
       and next.service_id = ${serviceNumberSql(next.service)}
       and ${opaque(sql`r.state = any(${[...handedOnStates(next.when)]}::text[]) and r.input_hash is not null`)}`.execute(
    tx,
  )
}

/**
 * Lets rows that an ended run of a later service left waiting go on there: in the run for that service that was started together with
 * this one. What services before have found and written decides about the next one, and is known only on the way. If that run has
 * ended, too, they wait for the next pass: this service is done with them.
 * @returns their keys, and whether they go on
 */
export async function resumeHandedOn(
  tx: Tx,
  source: string,
  keys: readonly string[],
  { run, services }: { readonly run: number } & Pick<ServiceTurn, 'services'>,
): Promise<{ readonly key: string; readonly isResumed: boolean }[]> {
  if (keys.length === 0) return []
  const { rows } = await sql<{ key: string; isResumed: boolean }>`
    with held as materialized (
      select ctid, key, run_id from fillrate.rows
       where source = ${source} and key = any(${[...keys]}::text[]) and ${opaque(sql`state = 'waiting'`)}
       order by key for no key update
    ), handed_on as (
      select held.ctid, held.key, next.id, next.state = 'running' as is_resumed
        from held join fillrate.runs ended on ended.id = held.run_id and ended.group_id is not null
             and (ended.state <> 'running' or ended.leased_until <= now())
        join fillrate.runs own on own.id = ${run} and own.service_id <> ended.service_id
        join fillrate.runs next on next.group_id = own.group_id and next.service_id = ended.service_id
       where next.service_id in (select id from fillrate.services where name = any(${[...services]}::text[]))
    ), resumed as (
      update fillrate.rows r set run_id = handed_on.id, lookup_id = null, reason = null, due_at = null
        from handed_on where r.ctid = handed_on.ctid and is_resumed
    )
    select key, is_resumed as "isResumed" from handed_on`.execute(tx)
  return rows
}

/** Those of some waiting rows that were handed on to a run of a service. */
export async function listHandedOnTo(
  tx: Tx,
  source: string,
  keys: readonly string[],
  service: number,
): Promise<string[]> {
  if (keys.length === 0) return []
  const { rows } = await sql<{ key: string }>`
    select r.key from fillrate.rows r join fillrate.runs u on u.id = r.run_id and u.service_id = ${service}
     where r.source = ${source} and r.key = any(${[...keys]}::text[]) and ${opaque(sql`r.state = 'waiting'`)}`.execute(
    tx,
  )
  return rows.map(({ key }) => key)
}

/**
 * Lets the first service begin anew with rows whose inputs have changed since they were handed on: they wait for whichever run picks
 * the source next.
 */
export async function releaseHandedOn(tx: Tx, source: string, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return
  await sql`
    update fillrate.rows set run_id = null, missed_lookup_ids = null, only_blanks = false
     where source = ${source} and key = any(${[...keys]}::text[]) and ${opaque(sql`is_requeued`)}`.execute(tx)
}

/** Gives rows that `remap` has written their lookups back, in their order (`remap-in-order.ts:requeueForRecord`). */
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
