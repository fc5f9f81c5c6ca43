import { sql } from 'kysely'
import { type EarlierWrites, type RowState, UNDONE_NOTE } from '../domain/row.ts'
import { listKeys } from './rows.ts'
import { isTrue, parseColumns, readCount, readOne, unnestByRow, type WithText } from './sql.ts'
import { enqueueWriteBackSql, hasAnsweredRowsSql } from './terms.ts'
import { ConflictError, type Connection, type Tx } from './transaction.ts'

/** A record that a service has found for a row, and the row. */
export interface FoundRecord {
  readonly key: string
  readonly inputHash: string
  readonly state: RowState
  /** When it was finished, as it was read. */
  readonly settledAt: string
  readonly lookup: number
  readonly service: number
  readonly record: unknown
  readonly confidence: number | null
  readonly written: Readonly<Record<string, unknown>> | null
  readonly earlier: EarlierWrites | null
  /** Its write was undone. */
  readonly undone: boolean
}

const lookupsSql = sql`(r.missed_lookup_ids || r.lookup_id)`

/** SQL: the lookup `l` has found a record for the row `r`. @param services which of them; null: that of the row */
const isRecordSql = (services: readonly number[] | null) =>
  sql`(l.state = 'found' and ${
    services === null
      ? sql`l.id = r.lookup_id`
      : sql`l.id = any(${lookupsSql}) and l.service_id = any(${[...services]}::smallint[])`
  })`

const isFinishedSql = sql`(r.state <> 'waiting' and r.deleted_at is null and r.input_hash is not null)`

const hasRecordSql = (services: readonly number[] | null) => sql`
  ${isFinishedSql} and exists (select from fillrate.lookups l where ${isRecordSql(services)})`

/**
 * Finished rows of a source for which one of these services has found a record, in key order.
 * @param after keyset: keys after this one
 */
export const listKeysWithRecord = (
  db: Connection,
  source: string,
  services: readonly number[] | null,
  after: string | null,
  limit: number,
): Promise<string[]> => listKeys(db, source, hasRecordSql(services), { after, limit })

/** The number of those rows. */
export const countRowsWithRecord = (
  db: Connection,
  source: string,
  services: readonly number[] | null,
): Promise<number> =>
  readCount(db, sql`fillrate.rows r where r.source = ${source} and ${hasRecordSql(services)}`)

/** The records that these services have found for rows, as the rows are now. The last of a row is the latest. */
export async function listFoundRecords(
  db: Connection,
  source: string,
  keys: readonly string[],
  services: readonly number[] | null,
): Promise<FoundRecord[]> {
  if (keys.length === 0) return []
  const { rows } = await sql<WithText<FoundRecord, 'record' | 'written' | 'earlier'>>`
    select r.key,
           r.input_hash::text as "inputHash",
           r.state,
           r.settled_at::text as "settledAt",
           l.id as lookup,
           l.service_id as service,
           l.record::text,
           l.confidence, r.last_written::text as written, r.earlier_writes::text as earlier, coalesce(r.notes ? ${sql.lit(UNDONE_NOTE)}, false) as undone
      from fillrate.rows r join fillrate.lookups l on ${isRecordSql(services)}
     where r.source = ${source} and r.key = any(${[...keys]}::text[]) and ${isFinishedSql}
     order by r.key, array_position(${lookupsSql}, l.id)`.execute(db)
  return parseColumns(rows, ['record', 'written', 'earlier'])
}

/**
 * Queues rows for write-back from the record of one of their lookups, which is the row's own until it is written.
 * If it was another, `missed_lookup_ids` holds all lookups of the row in their order until then, from which
 * `finishRows` restores both. A row belongs to the run that took it last.
 * @throws ConflictError if a row has changed since it was read (another run's write would be missing from its
 *   report), or a record is gone: the next attempt reads anew
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
  if (rows.length === 0) return
  const lookups = [...new Set(rows.map((row) => row.lookup))]
  // As in the pick, the lookups stay locked until the rows wait: whatever dequeues them then sees the rows.
  const queued = sql<{ count: number }>`
    with locked as (
      select id, state from fillrate.lookups where id = any(${lookups}::bigint[]) and state = 'found'
       order by id for no key update
    ), ${enqueueWriteBackSql('locked')}
    select count(*) as count from locked`
  const { count: locked } = await readOne(tx, queued)
  const { numAffectedRows: taken } = await sql`
    update fillrate.rows r
       set state = 'waiting', failure = null, reason = null, run_id = ${run}, picked_at = now(), settled_at = null, due_at = null, notes = null,
           missed_lookup_ids = case when r.lookup_id = v.lookup then r.missed_lookup_ids else ${lookupsSql} end, lookup_id = v.lookup, only_blanks = v."onlyBlanks",
           cells_written = case when v."onlyBlanks" and r.run_id = ${run} then r.cells_written else 0 end, cells_protected = 0, cells_skipped = 0
      from ${unnestByRow(source, rows, { inputHash: 'text', settledAt: 'timestamptz', lookup: 'bigint', onlyBlanks: 'boolean' })}
     where r.ctid = v.ctid
       and r.input_hash = v."inputHash"::bigint and r.settled_at = v."settledAt" and r.deleted_at is null
       and v.lookup = any(${lookupsSql})`.execute(tx)
  if (locked < lookups.length || Number(taken ?? 0) < rows.length)
    throw new ConflictError('rows have changed since they were read')
}

/** Whether rows of a run wait to be written from a stored record. @param options.left include postponed rows */
export const hasRowsToWrite = (
  db: Connection,
  source: string,
  run: number,
  { left }: { readonly left: boolean },
): Promise<boolean> =>
  isTrue(
    db,
    hasAnsweredRowsSql(sql`r.source = ${source} and r.run_id = ${run} and (${left} or r.due_at is null)`),
  )
