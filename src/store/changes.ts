import { type RawBuilder, sql } from 'kysely'
import { type EarlierWrites, type RowOutcome, type UndoContext, UNDONE_NOTE } from '../domain/row.ts'
import { jsonBatch, parseColumns, readOne, unnestByRow, type WithText } from './sql.ts'
import { failureSql } from './terms.ts'
import type { Connection, Tx } from './transaction.ts'

type Values = Readonly<Record<string, unknown>>

/** What a write changed in a row. */
export interface NewChange {
  readonly before: Values
  readonly after: Values
  /** What Fillrate had last written into these columns before, and what for earlier inputs: an undo restores this too. */
  readonly writtenBefore: Values | null
  readonly earlierBefore: EarlierWrites | null
}

/** How many cells a run has written, by the service whose record they are of. @param columns those that are filled, by source: not those of `touch` */
export async function countCellsOfRun(
  db: Connection,
  run: number,
  columns: Readonly<Record<string, readonly string[]>>,
): Promise<ReadonlyMap<number, number>> {
  const { rows } = await sql<{ service: number; count: number }>`
    select l.service_id as service, count(*) as count
      from fillrate.changes c cross join lateral jsonb_object_keys(c.after) as k (name) join fillrate.lookups l on l.id = c.lookup_id
     where c.run_id = ${run} and ${JSON.stringify(columns)}::jsonb -> c.source ? k.name
     group by l.service_id`.execute(db)
  return new Map(rows.map(({ service, count }) => [service, count]))
}

export interface UndoableChange extends NewChange {
  readonly id: number
  readonly source: string
  readonly key: string
  readonly lookup: number | null
  /** The inputs that it was made for. */
  readonly inputHash: string | null
}

/** The changes of a run that are not undone, newest first. @param below keyset: ids below this one */
export async function listUndoable(
  db: Connection,
  run: number,
  below: number | null,
  limit: number,
): Promise<UndoableChange[]> {
  const { rows } = await sql<WithText<UndoableChange, keyof NewChange>>`
    select id,
           source,
           key,
           lookup_id as lookup,
           input_hash::text as "inputHash",
           before::text,
           after::text,
           last_written_before::text as "writtenBefore",
           earlier_writes_before::text as "earlierBefore"
      from fillrate.changes
     where run_id = ${run} and undone_by_change_id is null and ${below === null ? sql`true` : sql`id < ${below}`}
     order by id desc limit ${limit}`.execute(db)
  return parseColumns(rows, ['before', 'after', 'writtenBefore', 'earlierBefore'])
}

/** Locks changes, so that two processes never undo the same one. @returns the changes that can still be undone */
export async function lockUndoable(tx: Tx, run: number, ids: readonly number[]): Promise<Set<number>> {
  const { rows } = await sql<{ id: number }>`
    select id from fillrate.changes
     where run_id = ${run} and id = any(${[...ids]}::bigint[]) and undone_by_change_id is null
     order by id desc for no key update`.execute(tx)
  return new Set(rows.map((row) => row.id))
}

interface RevertingChange extends NewChange {
  readonly run: number | null
  readonly key: string
  readonly lookup: number | null
  readonly inputHash: string | null
  /** The id of the change that it undoes. */
  readonly undoes: number
}

/** Records what an undo has written: changes of their own, to which the undone changes point. */
export async function insertReverting(
  tx: Tx,
  source: string,
  changes: readonly RevertingChange[],
): Promise<void> {
  if (changes.length === 0) return
  await sql`
    with undoing as (
      select * from jsonb_to_recordset(${jsonBatch(changes)}) as v
             (undoes bigint, run bigint, key text, lookup bigint, "inputHash" bigint, before jsonb, after jsonb, "writtenBefore" jsonb, "earlierBefore" jsonb)
    ), made as (
      insert into fillrate.changes (run_id, source, key, lookup_id, input_hash, before, after, last_written_before, earlier_writes_before)
      select run, ${source}, key, lookup, "inputHash", before, after, "writtenBefore", "earlierBefore" from undoing
      returning id, key
    )
    update fillrate.changes c set undone_by_change_id = made.id
      from undoing join made using (key)
     cross join lateral (
       select ctid from fillrate.changes where key = undoing.key and source = ${source} and id = undoing.undoes offset 0) as target
     where c.ctid = target.ctid`.execute(tx)
}

/** SQL: the change `c` of run `r` is not undone, and is no undo itself (undoing an undo counts as a write). */
const isStandingSql = sql<boolean>`(
  c.undone_by_change_id is null and (r.options -> 'undoes' is null or r.options -> 'writes_again' = 'true'))`

/** By change and column: the latest run that has written the cell again. */
export type LaterWrites = ReadonlyMap<number, ReadonlyMap<string, number>>

/**
 * The columns of each change that a later, not undone write has written again: they belong to the later write, even if
 * both wrote the same value.
 * @param sources the sources that share the rows
 * @param undoing the undo itself, whose writes do not count
 */
export async function findLaterWrites(
  db: Connection,
  sources: readonly string[],
  undoing: number | null,
  open: readonly Pick<UndoableChange, 'id' | 'key' | 'after'>[],
): Promise<LaterWrites> {
  if (open.length === 0) return new Map()
  const cells = open.map(({ id, key, after }) => ({ id, key, columns: Object.keys(after) }))
  const { rows } = await sql<{ id: number; column: string; run: number }>`
    select v.id, n.name as "column", max(c.run_id) as run
      from jsonb_to_recordset(${jsonBatch(cells)}) as v (id bigint, key text, columns jsonb)
      join fillrate.changes c on c.source = any(${[...sources]}::text[]) and c.key = v.key and c.id > v.id
      join fillrate.runs r on r.id = c.run_id
     cross join lateral jsonb_array_elements_text(v.columns) as n (name)
     where ${isStandingSql} and r.id is distinct from ${undoing}::bigint and c.after ? n.name
     group by v.id, n.name`.execute(db)
  const byChange = Map.groupBy(rows, ({ id }) => id)
  return new Map(
    [...byChange].map(([id, writes]) => [id, new Map(writes.map(({ column, run }) => [column, run]))]),
  )
}

export interface UndoableSummary {
  readonly total: number
  readonly undone: number
  readonly bySource: Readonly<Record<string, number>>
}

/** How many writes a run has made, and how many of them were undone. */
export function summarizeUndoable(db: Connection, run: number): Promise<UndoableSummary> {
  const summary = sql<UndoableSummary>`
    select coalesce(sum(total), 0)::bigint as total, coalesce(sum(undone), 0)::bigint as undone,
           coalesce(jsonb_object_agg(source, total), '{}') as "bySource"
      from (select source, count(*) as total, count(undone_by_change_id) as undone
              from fillrate.changes where run_id = ${run} group by source) c`
  return readOne(db, summary)
}

/** What Fillrate last wrote into a row, and what for earlier inputs. */
export interface OwnValues {
  readonly written: Values
  readonly earlier: EarlierWrites
}

/** Locks rows of a source before their cells, as write-back does. @returns what Fillrate wrote into each */
export async function lockRows(
  tx: Tx,
  source: string,
  keys: readonly string[],
): Promise<ReadonlyMap<string, OwnValues>> {
  const { rows } = await sql<WithText<OwnValues & { key: string }, keyof OwnValues>>`
    select key, coalesce(last_written, '{}')::text as written, coalesce(earlier_writes, '{}')::text as earlier from fillrate.rows
     where source = ${source} and key = any(${[...keys]}::text[])
     order by key for no key update`.execute(tx)
  return new Map(parseColumns(rows, ['written', 'earlier']).map(({ key, ...values }) => [key, values]))
}

interface RevertedRow {
  readonly key: string
  /** The inputs of the undone write, which are those of the row. */
  readonly inputHash: string | null
  /** The restored columns. */
  readonly columns: readonly string[]
  /** Those that hold a value that Fillrate had written before. All others count as entered manually again. */
  readonly written: Values
  /** Those that hold a value that Fillrate had written for earlier inputs. */
  readonly earlier: EarlierWrites
  /** What the undo left in columns that inputs read, for `own_writes`. Null: nothing is recorded. */
  readonly ownWrites: Values | null
  readonly cells: number
}

/**
 * Updates rows after an undo. `last_written` and `earlier_writes` follow the cells, or the policy `tracked` would
 * take a person's value for Fillrate's; a restored value counts as a person's where the row was last picked with
 * other inputs. The state changes only if the undone run was the last to finish the row. A future `due_at` stays; a
 * past one is cleared, or the next run would write the same values again at once.
 */
export async function revertRows(
  tx: Tx,
  source: string,
  undo: UndoContext,
  outcome: RowOutcome,
  rows: readonly RevertedRow[],
): Promise<void> {
  if (rows.length === 0) return
  const columns = sql`array(select jsonb_array_elements_text(v.columns))`
  const isOfRow = sql`r.input_hash = v."inputHash"::bigint`
  const written = sql`nullif((coalesce(r.last_written, '{}') - ${columns}) || case when ${isOfRow} then v.written else '{}' end, '{}')`
  const isLast = sql`(r.run_id = ${undo.undoes} and r.state <> 'waiting')`
  const ifLast = (value: RawBuilder<unknown>, column: string): RawBuilder<unknown> =>
    sql`${sql.id(column)} = case when ${isLast} then ${value} else ${sql.ref(`r.${column}`)} end`
  const notes = undo.writesAgain
    ? sql`nullif(r.notes - ${UNDONE_NOTE}::text, '{}')`
    : sql`coalesce(r.notes, '{}') || jsonb_build_object(${UNDONE_NOTE}::text, ${undo.run}::bigint)`
  await sql`
    update fillrate.rows r
       set last_written = ${written},
           earlier_writes = nullif((coalesce(r.earlier_writes, '{}') - ${columns}) || case when ${isOfRow} then v.earlier else '{}' end, '{}'),
           own_writes = nullif(coalesce(v."ownWrites", r.own_writes), '{}'),
           ${sql.join([
             ifLast(sql`${outcome.state}`, 'state'),
             ifLast(failureSql(sql`${outcome.state}`), 'failure'),
             ifLast(sql`${outcome.reason}`, 'reason'),
             ifLast(notes, 'notes'),
             ifLast(sql`now()`, 'settled_at'),
             ifLast(sql`case when r.due_at > now() then r.due_at end`, 'due_at'),
             ifLast(undo.writesAgain ? sql`v.cells` : sql`0`, 'cells_written'),
             ifLast(sql`0`, 'cells_protected'),
             ifLast(sql`0`, 'cells_skipped'),
             ifLast(sql`${undo.run}`, 'run_id'),
           ])}
      from ${unnestByRow(source, rows, { inputHash: 'text', columns: 'jsonb', written: 'jsonb', earlier: 'jsonb', ownWrites: 'jsonb', cells: 'integer' })}
     where r.ctid = v.ctid`.execute(tx)
}

/* What an undone write leaves to the later writes of its row, which stand: their undo must restore what was there before both. */

interface UndoneParents {
  /** The id of the undone change. */
  readonly id: number
  readonly key: string
  /** The empty objects and JSON nulls in which it had created keys. */
  readonly parents: Readonly<Record<string, unknown>>
}

/**
 * Gives the later writes into an object that was empty before an undone one: only the last undo of them leaves it without
 * a key, and must know that it was there.
 * @param sources the sources that share the rows
 */
export async function passOnParents(
  tx: Tx,
  sources: readonly string[],
  undone: readonly UndoneParents[],
): Promise<void> {
  if (undone.length === 0) return
  await sql`
    update fillrate.changes c set before = v.parents || c.before
      from jsonb_to_recordset(${jsonBatch(undone)}) as v (id bigint, key text, parents jsonb), fillrate.runs r
     where c.source = any(${[...sources]}::text[]) and c.key = v.key and c.id > v.id and r.id = c.run_id
       and ${isStandingSql}`.execute(tx)
}

interface KeptColumns {
  /** The id of the undone change. */
  readonly id: number
  readonly key: string
  /** Its columns that stay, because a later write has written them again. */
  readonly columns: readonly string[]
}

/**
 * Gives the next write of a column what an undone write had found there, unless the column was changed in between:
 * an undo of the next write would otherwise restore the undone value. A blank cell is null in what an undo leaves,
 * and absent in what a write found.
 * @param sources the sources that share the rows
 */
export async function passOnPreviousValues(
  tx: Tx,
  sources: readonly string[],
  undone: readonly KeptColumns[],
): Promise<void> {
  if (undone.length === 0) return
  const withPrevious = (column: string, previous: string): RawBuilder<unknown> => sql`
    (coalesce(c.${sql.id(column)}, '{}') - v.columns) || coalesce(v.${sql.id(previous)}, '{}')`
  await sql`
    update fillrate.changes c
       set before = ${withPrevious('before', 'previous')},
           last_written_before = nullif(${withPrevious('last_written_before', 'written')}, '{}'),
           earlier_writes_before = nullif(${withPrevious('earlier_writes_before', 'earlier')}, '{}')
      from (
        select next.id, next.key, next.source, array_agg(n.name) as columns,
               jsonb_object_agg(n.name, u.before -> n.name) filter (where u.before ? n.name) as previous,
               jsonb_object_agg(n.name, u.last_written_before -> n.name) filter (where u.last_written_before ? n.name) as written,
               jsonb_object_agg(n.name, u.earlier_writes_before -> n.name) filter (where u.earlier_writes_before ? n.name) as earlier
          from jsonb_to_recordset(${jsonBatch(undone)}) as k (id bigint, key text, columns jsonb)
          join fillrate.changes u on u.source = any(${[...sources]}::text[]) and u.key = k.key and u.id = k.id
         cross join lateral jsonb_array_elements_text(k.columns) as n (name)
         cross join lateral (
           select c.id, c.key, c.source, c.before
             from fillrate.changes c join fillrate.runs r on r.id = c.run_id
            where c.source = any(${[...sources]}::text[]) and c.key = k.key and c.id > k.id and c.after ? n.name
              and ${isStandingSql}
            order by c.id limit 1) next
         where nullif(next.before -> n.name, 'null') is not distinct from nullif(u.after -> n.name, 'null')
         group by next.id, next.key, next.source) v
     where c.source = v.source and c.key = v.key and c.id = v.id`.execute(tx)
}
