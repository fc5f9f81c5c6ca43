import { sql } from 'kysely'
import { Lookup } from '../domain/lookup.ts'
import { Row, UNDONE, type RowState } from '../domain/row.ts'
import { batchOfRows } from './batch.ts'
import type { Database } from './open.ts'
import { parsed, type Unparsed } from './rows.ts'
import type { StoreTransaction } from './transaction.ts'

type Connection = Database | StoreTransaction

const waiting = sql.lit(Row.waiting)
const found = sql.lit(Lookup.found)

/** A settled row with the record that is stored for it. */
export interface StoredAnswer {
  readonly key: string
  readonly inputHash: string
  readonly state: RowState
  readonly lookup: number
  readonly record: unknown
  readonly confidence: number | null
  readonly written: Readonly<Record<string, unknown>> | null
  /** Its write was taken back by an undo. */
  readonly undone: boolean
}

/**
 * Settled rows of a source whose lookup has found something, in key order.
 * @param after keyset: keys after this one
 * @param service whose answers they are; null: any
 */
export async function page(
  db: Connection,
  source: string,
  after: string,
  limit: number,
  service: number | null,
): Promise<StoredAnswer[]> {
  const { rows } = await sql<Unparsed<StoredAnswer>>`
    select r.key, r.input_hash as "inputHash", r.state, r.lookup_id as lookup, l.record::text, l.confidence, r.last_written::text as written,
           coalesce(r.notes ? ${sql.lit(UNDONE)}, false) as undone
      from fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id
     where r.source = ${source} and r.key > ${after} and r.state <> ${waiting} and r.input_hash is not null
       and l.state = ${found} and ${isOf(service)}
     order by r.key limit ${limit}`.execute(db)
  return parsed<StoredAnswer>(rows)
}

const isOf = (service: number | null) => (service === null ? sql`true` : sql`l.service_id = ${service}`)

/** How many of them there are. */
export async function count(db: Connection, source: string, service: number | null): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id
     where r.source = ${source} and r.state <> ${waiting} and r.input_hash is not null and l.state = ${found}
       and ${isOf(service)}`.execute(db)
  return rows[0]?.count ?? 0
}

/**
 * Has rows written from their stored record, by whoever writes back next. Rows that changed meanwhile are left out.
 * @returns how many wait now
 */
export async function writeAgain(
  tx: StoreTransaction,
  source: string,
  run: number,
  rows: readonly Pick<StoredAnswer, 'key' | 'inputHash' | 'lookup'>[],
): Promise<number> {
  if (rows.length === 0) return 0
  const lookups = [...new Set(rows.map((row) => row.lookup))]
  // As in the pick, the lookups are locked until the rows wait: whoever clears the flag then sees them.
  const { rows: locked } = await sql<{ id: number }>`
    select id from fillrate.lookups where id = any(${lookups}::bigint[]) and state = ${found}
     order by id for no key update`.execute(tx)
  const answered = new Set(locked.map((row) => row.id))
  const open = rows.filter((row) => answered.has(row.lookup))
  const values = open.map(({ key, inputHash, lookup }) => ({ key, inputHash, lookup }))
  const { rows: taken } = await sql<{ lookup: number }>`
    update fillrate.rows r
       set state = ${waiting}, reason = null, run_id = ${run}, picked_at = now(), settled_at = null, due_at = null,
           notes = null, cells_written = 0, cells_protected = 0, cells_skipped = 0
      from ${batchOfRows(source, values, sql`"inputHash" text, lookup bigint`)}
     where r.ctid = place.ctid
       and r.lookup_id = v.lookup and r.input_hash = v."inputHash" and r.state <> ${waiting}
    returning r.lookup_id as lookup`.execute(tx)
  await sql`
    insert into fillrate.write_back_queue (lookup_id)
    select unnest(${[...new Set(taken.map((row) => row.lookup))]}::bigint[]) on conflict do nothing`.execute(
    tx,
  )
  return taken.length
}

/** Whether rows of a run wait to be written from a stored record. @param options.left also those left for later */
export async function anyToWrite(
  db: Connection,
  source: string,
  run: number,
  { left }: { readonly left: boolean },
): Promise<boolean> {
  const { rows } = await sql<{ any: boolean }>`
    select exists (
      select from fillrate.rows r join fillrate.write_back_queue u on u.lookup_id = r.lookup_id
       where r.source = ${source} and r.state = ${waiting} and r.run_id = ${run}
         and (${left} or r.due_at is null)) as any`.execute(db)
  return rows[0]?.any ?? false
}
