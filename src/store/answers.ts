import { sql } from 'kysely'
import { Lookup, type LookupFields } from '../domain/lookup.ts'
import { Row } from '../domain/row.ts'
import { keyedBatch, unindexed } from './batch.ts'
import { ANSWERED } from './lookups.ts'
import type { Database } from './open.ts'
import type { StoreTransaction } from './transaction.ts'

type Connection = Database | StoreTransaction

const pending = sql.lit(Lookup.pending)
const leased = sql.lit(Lookup.leased)
const submitted = sql.lit(Lookup.submitted)

/** Those of `stored` that are answered now wait for being written back. */
export const isUnwritten = sql`unwritten as (
      insert into fillrate.write_back_queue (lookup_id) select id from stored where state in (${ANSWERED})
      on conflict do nothing
    )`

/** Answers as `v`, by the id of their lookup as `k.key`. */
export const answerRecords = (answers: readonly { readonly id: number }[]) =>
  keyedBatch(
    sql`${answers.map((one) => one.id)}::bigint[]`,
    answers,
    sql`token uuid, state text, reason text, attempts integer, "notBefore" timestamptz, "askedAt" timestamptz,
        "resolvedAt" timestamptz, "dueAt" timestamptz, record jsonb, confidence double precision, hashes jsonb,
        "inDoubt" integer`,
  )

export const notErased = sql`not exists (
  select from fillrate.suppressions s where s.hash in (select jsonb_array_elements_text(v.hashes)))`

/**
 * A paid record that comes when nobody waits for it any more, its lease lost or its job given up: it answers a lookup of
 * which nothing is known, also one that somebody else was told has no match. Rows that were settled without it are due.
 */
export async function keepPaidRecords(
  db: Connection,
  answers: readonly (LookupFields & { readonly id: number; readonly hashes?: readonly string[] })[],
): Promise<void> {
  if (answers.length === 0) return
  await sql`
    with stored as (
      update fillrate.lookups l
         set state = v.state, reason = v.reason, resolved_at = v."resolvedAt", refresh_at = v."dueAt", not_before = null,
             lease_token = null, leased_until = null, record = v.record, confidence = v.confidence
        from ${answerRecords(answers)}
       where l.id = k.key and ${unindexed(sql`l.record is null`)} and ${notErased}
      returning l.id, l.state
    ), ${isUnwritten}
    update fillrate.rows r set due_at = now() from stored
     where r.lookup_id = stored.id and r.state in (${sql.lit(Row.notFound)}, ${sql.lit(Row.rejected)}, ${sql.lit(Row.failed)})`.execute(
    db,
  )
}

export interface ResultAnswer extends LookupFields {
  readonly id: number
  readonly job: string
}

/** Stores what deliveries answered. A lookup that has an answer already keeps it. @returns how many were stored */
export async function answerFromResults(
  tx: StoreTransaction,
  answers: readonly ResultAnswer[],
): Promise<number> {
  if (answers.length === 0) return 0
  const { rows } = await sql<{ id: number }>`
    with stored as (
      update fillrate.lookups l
         set state = v.state, reason = v.reason, resolved_at = v."resolvedAt", refresh_at = v."dueAt", not_before = null,
             lease_token = null, leased_until = null,
             record = case when v.state = 'found' then v.record else l.record end,
             confidence = case when v.state = 'found' then v.confidence else l.confidence end
        from ${answerRecords(answers)}
       where l.id = k.key and ${unindexed(sql`l.state in (${submitted}, ${pending}, ${leased})`)}
      returning l.id, l.state
    ), ${isUnwritten}
    select id from stored`.execute(tx)
  const stored = new Set(rows.map((row) => row.id))
  await keepPaidRecords(
    tx,
    answers.filter((one) => one.state === Lookup.found && !stored.has(one.id)),
  )
  return rows.length
}
