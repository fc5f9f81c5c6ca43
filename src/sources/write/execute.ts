import { isRowWait, LOCK_NOT_AVAILABLE, type DatabaseError } from '../../util/error-text.ts'
import { cellTextSql } from '../cell.ts'
import { query, tryQuery, addFunctionSources, isAmbiguousError, isRowError, type Db } from '../db.ts'
import { keyMatchesSql } from '../key.ts'
import { filterCastableKeys } from '../page.ts'
import { ownWritesJsonSql, recordedCells, recordedJsonSql } from '../own-writes.ts'
import type { MappedCell, Source } from '../source-model.ts'
import {
  batchJson,
  batchParameters,
  batchSql,
  IDENTITY_COLUMNS,
  type BatchColumn,
  type BatchItem,
} from './batch.ts'
import { bisectBatch, type RejectedRow } from './bisect.ts'
import { afterReader, readJson, resultReader, rowUpdateStatement, type RowResult } from './statement.ts'
import { holdPathSql, type CellUnit, type RowUpdate } from './row-update.ts'

/** Cells of one row that the database rejects, and the constraint, if it names one. */
export interface RejectedCells extends CellUnit {
  readonly error: DatabaseError
  readonly constraint: TableConstraint | null
}

export interface UpdatedRows {
  /** By the index of each row. */
  readonly rows: ReadonlyMap<number, RowResult | RejectedRow>
  readonly cells: ReadonlyMap<number, readonly RejectedCells[]>
}

export interface ExecuteOptions {
  /** Nothing is locked and written. */
  readonly preview?: boolean
  /** Without a savepoint: an error of a row is thrown, and the caller rolls back and tries again with one. */
  readonly isUnguarded?: boolean
}

/**
 * Updates the rows of a batch. If the database rejects it, it is bisected: the rows and cells that the database rejects are
 * reported, and all others are written. A row whose key can no longer be a key of the source is missing; one for which a
 * trigger or a constraint waits for another transaction is locked.
 */
export async function executeUpdate<Row extends { readonly key: string }>(
  tx: Db,
  source: Source,
  toUpdate: (bisecting: boolean) => RowUpdate<Row>,
  rowsToUpdate: readonly Row[],
  { preview = false, isUnguarded = false }: ExecuteOptions = {},
): Promise<UpdatedRows> {
  const batch = rowsToUpdate.map((row, index) => ({ ...row, index }))
  const update = toUpdate(false)
  const statement = rowUpdateStatement(source, update, { preview })
  const execute = async (): Promise<UpdatedRows> => {
    const rows = await query<object>(tx, statement, batchParameters(update.batch, batch))
    // Not before it: the user's triggers may need the time that a deferred constraint gives them. Always, once the
    // database has rejected a batch: such a constraint may be newer than the source, and fail at commit.
    if (source.table.hasDeferred || source.table.rolePath !== null || !isUnguarded)
      await query(tx, `set constraints all immediate; ${holdPathSql(source)}`)
    return { rows: byIndex(rows.map(resultReader(update))), cells: new Map() }
  }
  const guarded = async (): Promise<UpdatedRows> => {
    await query(tx, GUARD)
    try {
      const results = await execute()
      await query(tx, 'release savepoint fillrate_batch')
      return results
    } catch (error) {
      if (!isRowError(error) && !isRowWait(error)) throw error
      // Fails where the error has ended the connection.
      await query(tx, 'rollback to savepoint fillrate_batch')
      // If it fails without any row too, the statement itself is wrong: a privilege, a column that was dropped.
      if (
        isRowError(error) &&
        isAmbiguousError(error) &&
        (await tryQuery(tx, statement, batchParameters(update.batch, []))) !== null
      )
        throw error
      return await bisect(tx, source, toUpdate(true), batch, preview)
    }
  }
  const { rows, cells } = isUnguarded ? await execute() : await guarded()
  return { rows: preview ? rows : await rereadAfterTriggers(tx, source, update.cells, batch, rows), cells }
}

const byIndex = <One extends { readonly index: number }>(results: readonly One[]): Map<number, One> =>
  new Map(results.map((result) => [result.index, result]))

/** A wait of a trigger or a constraint holds up the other rows: this one is written when the other transaction ends. */
const GUARD = `set local lock_timeout = '50ms'; savepoint fillrate_batch`

async function bisect<Row>(
  tx: Db,
  source: Source,
  update: RowUpdate<Row>,
  batch: readonly (Row & BatchItem)[],
  preview: boolean,
): Promise<UpdatedRows> {
  const { units } = update
  const constraints = units.length === 0 ? [] : await readTableConstraints(tx, source)
  const keys = batch.map(({ key }) => key)
  const castable = new Set(await filterCastableKeys(tx, source, keys))
  const rowsWithKey = batch.filter(({ key }) => castable.has(key))
  const { results, rejected } = await withSources(
    tx,
    await bisectBatch(tx, source, batchJson(update.batch, rowsWithKey), {
      statement: rowUpdateStatement(source, update, { preview }),
      afterwards: holdPathSql(source),
      units,
      suspects: listSuspects(update.cells, units, constraints),
    }),
  )
  const read = resultReader(update)
  const rows = results.map((row): RowResult | RejectedRow => {
    if (!('error' in row)) return read(row)
    return row.error.code === LOCK_NOT_AVAILABLE ? { ...UNTOUCHED, index: row.index, state: 'locked' } : row
  })
  const missing = batch.map(({ index }): RowResult => ({ ...UNTOUCHED, index, state: 'missing' }))
  const rejectedCells = rejected.flatMap(({ index, unit, error }) => {
    const written = units[unit]
    const constraint = findConstraint(error, constraints)
    return written === undefined ? [] : [{ index, cells: { ...written, error, constraint } }]
  })
  const byRow = Map.groupBy(rejectedCells, ({ index }) => index)
  return {
    rows: new Map([...byIndex(missing), ...byIndex(rows)]),
    cells: new Map([...byRow].map(([index, ofRow]) => [index, ofRow.map(({ cells }) => cells)])),
  }
}

const UNTOUCHED = {
  copies: null,
  before: null,
  after: null,
  ownWrites: null,
  given: null,
  protected: null,
  skipped: null,
  confirmed: null,
} as const

/** Adds the sources of the user's functions to what the batch was rejected for. */
async function withSources<Bisected extends Awaited<ReturnType<typeof bisectBatch>>>(
  tx: Db,
  bisected: Bisected,
): Promise<Bisected> {
  const failures = [
    ...bisected.results.flatMap((result) => ('error' in result ? [result.error] : [])),
    ...bisected.rejected.map(({ error }) => error),
  ]
  const described = new Map((await addFunctionSources(tx, failures)).map((error, i) => [failures[i], error]))
  const add = <Result extends object>(result: Result): Result =>
    'error' in result
      ? { ...result, error: described.get(result.error as DatabaseError) ?? result.error }
      : result
  return { ...bisected, results: bisected.results.map(add), rejected: bisected.rejected.map(add) }
}

/**
 * Reads `after` again if the user's AFTER triggers may have changed what was just written: RETURNING shows the row as it
 * was before they ran.
 */
async function rereadAfterTriggers(
  tx: Db,
  source: Source,
  cells: readonly MappedCell[],
  batch: readonly BatchItem[],
  results: UpdatedRows['rows'],
): Promise<UpdatedRows['rows']> {
  if (!source.table.hasAfterTriggers) return results
  const written = batch.flatMap(({ index, key }) => {
    const result = results.get(index)
    return result && 'state' in result && result.state === 'written' ? [{ ...result, key }] : []
  })
  if (written.length === 0) return results
  const columns: BatchColumn<(typeof written)[number]>[] = [
    ...IDENTITY_COLUMNS,
    { name: '~given', type: 'jsonb', of: ({ given }) => given },
  ]
  const left = recordedJsonSql(recordedCells(source.ownWrites?.writers ?? []))
  const matches = keyMatchesSql(source, '"~batch"."~key"')
  const now = await query<{ readonly [column: string]: unknown; readonly index: number }>(
    tx,
    `
    select "~row" as index, ${cells.map((cell, n) => `${cellTextSql(cell)} as "~after${n}"`).join(', ')},
           (${ownWritesJsonSql(left, '"~given"')})::text as "~own writes"
      from ${batchSql(columns, false, '"~batch"')} join ${source.table.sql} as t on ${matches}`,
    batchParameters(columns, written),
  )
  const before = byIndex(written)
  const readAfter = afterReader(cells)
  const reread = now.map((row): RowResult => {
    const { key: _, ...stored } = before.get(row.index)!
    return {
      ...stored,
      after: readAfter(row, ({ cell }) => Object.hasOwn(stored.after ?? {}, cell.column)),
      ownWrites: readJson(row['~own writes']) as RowResult['ownWrites'],
    }
  })
  return new Map([...results, ...byIndex(reread)])
}

/** A constraint, a unique index or a domain that a write to the source's table can break. */
interface TableConstraint {
  /** What an error names: a constraint by its name, a domain by its type. */
  readonly names: 'constraint' | 'type'
  readonly name: string
  /** Columns of the source's table. */
  readonly columns: readonly string[]
  /** Of a foreign key: the other table, as SQL, and its columns in the order of `columns`. */
  readonly target: { readonly table: string; readonly columns: readonly string[] } | null
}

/**
 * The constraints of the source's table, of its partitions and of the tables that inherit from it, with the columns of
 * each. A unique index may have expressions and a condition: it depends on their columns. Found by name, for which a role needs no
 * privilege.
 */
const readTableConstraints = (
  db: Db,
  { table }: Pick<Source, 'table'>,
): Promise<readonly TableConstraint[]> =>
  query(
    db,
    `
    with recursive own as (
      select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = $2
    ), tables as (
      select oid from own union all select h.inhrelid from pg_inherits h join tables on tables.oid = h.inhparent
    )
    select 'constraint' as names, k.conname::text as name, ${columnNames('k.conrelid', 'k.conkey')} as columns,
           case when k.contype = 'f' then jsonb_build_object(
             'table', k.confrelid::regclass::text, 'columns', ${columnNames('k.confrelid', 'k.confkey')}) end as target
      from pg_constraint k join tables on tables.oid = k.conrelid
     where k.contype <> 't' and k.conkey is not null
     union all
    select 'constraint', k.conname::text, ${columnNames('k.confrelid', 'k.confkey')}, null
      from pg_constraint k join tables on tables.oid = k.confrelid
     union all
    select 'constraint', c.relname::text, array(
             select distinct a.attname::text from pg_attribute a
              where a.attrelid = i.indrelid
                and (a.attnum = any(i.indkey::int2[]) and a.attnum > 0
                     or exists (select from pg_depend d
                                 where d.classid = 'pg_class'::regclass and d.objid = i.indexrelid
                                   and d.refclassid = 'pg_class'::regclass and d.refobjid = a.attrelid and d.refobjsubid = a.attnum))),
           null
      from pg_index i join tables on tables.oid = i.indrelid join pg_class c on c.oid = i.indexrelid
     where (i.indisunique or i.indisexclusion)
     union all
    select 'type', y.typname::text, array_agg(a.attname::text), null
      from pg_attribute a join pg_type y on y.oid = a.atttypid
     where a.attrelid = (select oid from own) and a.attnum > 0 and y.typtype = 'd' group by y.typname`,
    [table.schema, table.name],
  )

const columnNames = (table: string, numbers: string): string =>
  `array(select a.attname::text from unnest(${numbers}) with ordinality as n(attnum, place)
           join pg_attribute a on a.attrelid = ${table} and a.attnum = n.attnum order by n.place)`

/** For what an error may name, the units that it may mean: those with a cell in one of its columns. */
function listSuspects(
  cells: readonly MappedCell[],
  units: ReadonlyArray<{ readonly columns: readonly string[] }>,
  constraints: readonly TableConstraint[],
): Record<string, number[]> {
  const suspects: Record<string, number[]> = {}
  const add = (name: string, columns: readonly string[]): void => {
    const numbers = units.flatMap((unit, number) =>
      cells.some((cell) => columns.includes(cell.attribute) && unit.columns.includes(cell.column))
        ? [number]
        : [],
    )
    if (numbers.length > 0) suspects[name] = [...new Set([...(suspects[name] ?? []), ...numbers])]
  }
  for (const { attribute } of cells) add(`column ${attribute}`, [attribute])
  for (const { names, name, columns } of constraints) add(`${names} ${name}`, columns)
  return suspects
}

/** The constraint that an error names. */
const findConstraint = (
  error: DatabaseError,
  constraints: readonly TableConstraint[],
): TableConstraint | null =>
  constraints.find(({ names, name }) => names === 'constraint' && name === error.constraint) ??
  constraints.find(({ names, name }) => names === 'type' && name === error.type) ??
  null
