import { sql } from 'kysely'
import { UNDONE_NOTE } from '../domain/row.ts'
import { queueForWrite, type RemapRow } from './requeue-rows.ts'
import { readOne, unnestByRow } from './sql.ts'
import type { Connection, Tx } from './transaction.ts'
import { parseRows, type Unparsed } from './write-back-queue.ts'

/** A record of a row that one of several services has found. */
export interface FoundRecord extends RemapRow {
  readonly service: number
}

const lookupsSql = sql`(r.missed_lookup_ids || r.lookup_id)`

const hasRecordSql = (services: readonly number[]) => sql`
  r.state <> 'waiting' and r.deleted_at is null and r.input_hash is not null
       and exists (select from fillrate.lookups l where l.id = any(${lookupsSql}) and l.state = 'found' and l.service_id = any(${[...services]}::smallint[]))`

/** Finished rows of a source for which one of these services has found a record, in key order. @param after keyset: keys after this one */
export async function listKeysWithRecord(
  db: Connection,
  source: string,
  services: readonly number[],
  after: string,
  limit: number,
): Promise<{ readonly key: string }[]> {
  const { rows } = await sql<{ key: string }>`
    select r.key from fillrate.rows r
     where r.source = ${source} and r.key > ${after} and ${hasRecordSql(services)} order by r.key limit ${limit}`.execute(
    db,
  )
  return rows
}

/** The number of those rows. */
export async function countRowsWithRecord(
  db: Connection,
  source: string,
  services: readonly number[],
): Promise<number> {
  const counted = sql<{ count: number }>`
    select count(*) as count from fillrate.rows r where r.source = ${source} and ${hasRecordSql(services)}`
  return (await readOne(db, counted)).count
}

/** The records that these services have found for rows, as the rows are now. */
export async function listFoundRecords(
  db: Connection,
  source: string,
  keys: readonly string[],
  services: readonly number[],
): Promise<FoundRecord[]> {
  if (keys.length === 0) return []
  const { rows } = await sql<Unparsed<FoundRecord>>`
    select r.key, r.input_hash::text as "inputHash", r.state, r.settled_at::text as "settledAt", l.id as lookup, l.service_id as service, l.record::text,
           l.confidence, r.last_written::text as written, r.earlier_writes::text as earlier, coalesce(r.notes ? ${sql.lit(UNDONE_NOTE)}, false) as undone
      from fillrate.rows r cross join lateral unnest(${lookupsSql}) as t (id)
      join fillrate.lookups l on l.id = t.id and l.state = 'found' and l.service_id = any(${[...services]}::smallint[])
     where r.source = ${source} and r.key = any(${[...keys]}::text[]) and r.state <> 'waiting' and r.deleted_at is null and r.input_hash is not null
     order by r.key`.execute(db)
  return parseRows<FoundRecord>(rows)
}

/**
 * Queues rows for write-back from the record of one of their lookups, which becomes the row's own until it is written. Until then
 * `missed_lookup_ids` has all lookups of the row in their order, its own included: from that `finishRows` restores both.
 * @throws ConflictError if a row has changed since it was read; the next attempt reads it again
 */
export async function requeueForRecord(
  tx: Tx,
  source: string,
  run: number,
  rows: readonly (Pick<FoundRecord, 'key' | 'inputHash' | 'settledAt' | 'lookup'> & {
    /** A service before has found the row: only its blank cells are filled. */
    readonly onlyBlanks: boolean
  })[],
): Promise<void> {
  const values = rows.map(({ key, inputHash, settledAt, lookup, onlyBlanks }) => ({
    key,
    inputHash,
    settledAt,
    lookup,
    onlyBlanks,
  }))
  await queueForWrite(
    tx,
    rows,
    sql`
    update fillrate.rows r
       set state = 'waiting', failure = null, reason = null, run_id = ${run}, picked_at = now(), settled_at = null, due_at = null, notes = null,
           lookup_id = v.lookup, missed_lookup_ids = ${lookupsSql}, only_blanks = v."onlyBlanks",
           cells_written = case when v."onlyBlanks" and r.run_id = ${run} then r.cells_written else 0 end, cells_protected = 0, cells_skipped = 0
      from ${unnestByRow(source, values, { inputHash: 'text', settledAt: 'timestamptz', lookup: 'bigint', onlyBlanks: 'boolean' })}
     where r.ctid = v.ctid
       and r.input_hash = v."inputHash"::bigint and r.settled_at = v."settledAt" and r.deleted_at is null and v.lookup = any(${lookupsSql})`,
  )
}
