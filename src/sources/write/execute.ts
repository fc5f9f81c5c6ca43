import type { DatabaseError } from '../../util/error-text.ts'
import { parseExactJson } from '../../domain/json.ts'
import { isRowWait, LOCK_NOT_AVAILABLE } from '../../util/sqlstates.ts'
import { cellJsonSql } from '../cell.ts'
import { type Db, query, tryQuery } from '../db.ts'
import { keyFromTextSql, keyMatchesSql, keyOrderSql } from '../key.ts'
import { filterCastableKeys } from '../page.ts'
import { ownWritesJsonSql, recordedCells, recordedJsonSql } from '../own-writes.ts'
import { addFunctionSources, isAmbiguousError, isRowError } from '../pg-errors.ts'
import { quoteLiteral } from '../quote.ts'
import type { MappedCell, Source } from '../source-model.ts'
import { bisectBatch, type CellUnit, type RejectedRow } from './bisect.ts'
import { findConstraint, listSuspects, readTableConstraints, type TableConstraint } from './constraints.ts'
import { concatJson, jsonEntry, holdPathSql } from './result-sql.ts'

/** A row of a batch, and its index in it. */
interface BatchItem {
  readonly index: number
  readonly key: string
}

/** What a statement returns for one row. */
interface StatementResult {
  readonly index: number
  readonly written: boolean
  readonly after: Record<string, unknown> | null
  readonly ownWrites?: Record<string, unknown> | null
  /** The recorded cells as the user gave them. */
  readonly given?: Record<string, unknown> | null
}

/** A statement that takes a batch and returns a result for each of its rows. */
export interface BatchStatement<Item, One> {
  readonly sql: string
  /** Without it, the batch is one JSON array, `$1`. */
  readonly toParameters?: (batch: readonly Item[]) => readonly unknown[]
  /** Reads one of the rows that it returns; without it, they are one JSON array. */
  readonly readRow?: (row: object) => One
  /**
   * Its form for a batch whose cells are tried apart, and these cells. Without it, only rows are: an undo that is rejected
   * stays to be done, as a whole.
   */
  readonly prepareApart?: () => {
    readonly sql: string
    readonly cells: readonly MappedCell[]
    readonly units: readonly CellUnit[]
  }
}

/** Cells of one row that the database rejects, and the constraint, if it names one. */
export interface RejectedCells extends CellUnit {
  readonly error: DatabaseError
  readonly constraint: TableConstraint | null
}

type UntouchedRow<One> = (index: number, why: 'missing' | 'locked') => One

export interface BatchResults<One> {
  /** By the index of each row. */
  readonly rows: ReadonlyMap<number, One | RejectedRow>
  readonly cells: ReadonlyMap<number, readonly RejectedCells[]>
}

/**
 * Executes a statement for a batch. If the database rejects the batch, its rows and their cells are tried apart: what it
 * rejects is reported, the statement is executed for all else.
 * @param untouchedRow the result for a row whose key can no longer be a key of the source, or for which a trigger or a
 *   constraint waits for another transaction
 * @param isUnguarded without a savepoint: an error of a row is thrown, and the caller rolls back and tries again with one
 */
export async function executeBatch<Item extends BatchItem, One extends StatementResult>(
  tx: Db,
  source: Source,
  statement: BatchStatement<Item, One>,
  batch: readonly Item[],
  untouchedRow: UntouchedRow<One>,
  isUnguarded = false,
): Promise<BatchResults<One>> {
  const toParameters = statement.toParameters ?? ((rows) => [JSON.stringify(rows)])
  const execute = async (): Promise<BatchResults<One>> => {
    const { sql, readRow } = statement
    const results =
      readRow === undefined
        ? await runStatement<One>(tx, sql, batch)
        : (await query<object>(tx, sql, toParameters(batch))).map(readRow)
    // Not before it: the user's triggers may need the time that a deferred constraint gives them. Always, once the
    // database has rejected a batch: such a constraint may be newer than the source, and fail at commit.
    if (source.table.hasDeferred || source.table.rolePath !== null || !isUnguarded)
      await query(tx, `set constraints all immediate; ${holdPathSql(source)}`)
    return { rows: new Map(results.map((one) => [one.index, one])), cells: new Map() }
  }
  if (isUnguarded) return await execute()
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
      (await tryQuery(tx, statement.sql, toParameters([]))) !== null
    )
      throw error
    return await executeApart(tx, source, statement, batch, untouchedRow)
  }
}

/** A wait of a trigger or a constraint holds up the other rows: this one is written when the other transaction ends. */
const GUARD = `set local lock_timeout = '50ms'; savepoint fillrate_batch`

async function executeApart<Item extends BatchItem, One extends StatementResult>(
  tx: Db,
  source: Source,
  { sql, readRow, prepareApart }: BatchStatement<Item, One>,
  batch: readonly Item[],
  untouchedRow: UntouchedRow<One>,
): Promise<BatchResults<One>> {
  const apart = prepareApart?.() ?? { sql, cells: [], units: [] }
  const constraints = prepareApart === undefined ? [] : await readTableConstraints(tx, source)
  const ordered = await sortByKey(tx, source, batch)
  const { results, rejected } = await withSources(
    tx,
    await bisectBatch<object>(tx, ordered, {
      statement: apart.sql,
      afterwards: holdPathSql(source),
      units: apart.units,
      suspects: listSuspects(apart.cells, apart.units, constraints),
    }),
  )
  const read = (row: object | RejectedRow): One | RejectedRow => {
    if (!('error' in row)) return readRow === undefined ? (row as One) : readRow(row)
    return row.error.code === LOCK_NOT_AVAILABLE ? untouchedRow(row.index, 'locked') : row
  }
  const found = new Set(ordered.map(({ index }) => index))
  const missing = batch
    .filter(({ index }) => !found.has(index))
    .map(({ index }) => untouchedRow(index, 'missing'))
  const rejectedCells = rejected.flatMap(({ index, unit, error }) => {
    const one = apart.units[unit]
    return one === undefined
      ? []
      : [{ index, cells: { ...one, error, constraint: findConstraint(error, constraints) } }]
  })
  return {
    rows: new Map([...results.map(read), ...missing].map((one) => [one.index, one])),
    cells: new Map(
      [...Map.groupBy(rejectedCells, ({ index }) => index)].map(([index, ofRow]) => [
        index,
        ofRow.map((one) => one.cells),
      ]),
    ),
  }
}

/** Adds the sources of the user's functions to what the batch was rejected for. */
async function withSources<Apart extends Awaited<ReturnType<typeof bisectBatch<object>>>>(
  tx: Db,
  apart: Apart,
): Promise<Apart> {
  const failures = [
    ...apart.results.flatMap((one) => ('error' in one ? [one.error] : [])),
    ...apart.rejected.map(({ error }) => error),
  ]
  const described = new Map((await addFunctionSources(tx, failures)).map((error, i) => [failures[i], error]))
  const add = <One extends object>(one: One): One =>
    'error' in one ? { ...one, error: described.get(one.error as DatabaseError) ?? one.error } : one
  return { ...apart, results: apart.results.map(add), rejected: apart.rejected.map(add) }
}

/**
 * Sorts a batch by key, so that of two rows that exclude one another the first is written. Leaves out keys that can no
 * longer be keys of the source.
 */
async function sortByKey(tx: Db, source: Source, batch: readonly BatchItem[]): Promise<BatchItem[]> {
  const castable = new Set(
    await filterCastableKeys(
      tx,
      source,
      batch.map(({ key }) => key),
    ),
  )
  const items = batch.filter(({ key }) => castable.has(key))
  const sorted = await query<{ place: number }>(
    tx,
    `select k.place::int as place
       from unnest($1::text[]) with ordinality as k(key, place) cross join lateral ${keyFromTextSql(source, 'k.key')} as p
      order by ${keyOrderSql(source, 'p')}`,
    [items.map(({ key }) => key)],
  )
  return sorted.flatMap(({ place }) => items[place - 1] ?? [])
}

async function runStatement<Answer>(
  db: Db,
  statement: string,
  batch: readonly unknown[],
): Promise<readonly Answer[]> {
  const [row] = await query<{ results: string }>(db, statement, [JSON.stringify(batch)])
  return row === undefined ? [] : (parseExactJson(row.results) as Answer[])
}

/**
 * Reads `after` again if the user's AFTER triggers may have changed what was just written: RETURNING shows the row as it
 * was before they ran.
 */
export async function rereadAfterTriggers<One extends StatementResult>(
  tx: Db,
  source: Source,
  cells: readonly MappedCell[],
  batch: readonly BatchItem[],
  results: BatchResults<One>['rows'],
): Promise<BatchResults<One>['rows']> {
  if (!source.table.hasAfterTriggers) return results
  const written = batch.flatMap(({ index, key }) => {
    const one = results.get(index)
    return one && !('error' in one) && one.written
      ? [{ index, key, columns: Object.keys(one.after ?? {}), given: one.given ?? null }]
      : []
  })
  if (written.length === 0) return results
  const values = cells.map((cell) =>
    jsonEntry(
      `"~b".columns ? ${quoteLiteral(cell.column)}`,
      cell.column,
      `coalesce(${cellJsonSql(cell)}, 'null')`,
    ),
  )
  const left = recordedJsonSql(recordedCells(source.ownWrites?.writers ?? []))
  const statement = `
    select coalesce(json_agg(json_build_object('index', "~b".index, 'after', ${concatJson(values)},
             'ownWrites', ${ownWritesJsonSql(left, '"~b".given')})), '[]')::text as results
      from jsonb_to_recordset($1::jsonb) as "~b"(index int, key text, columns jsonb, given jsonb)
      join ${source.table.sql} as t on ${keyMatchesSql(source, '"~b".key')}${
        // Which of several rows was written is not known here: what the update returned is kept.
        source.table.isInherited
          ? ` where (select count(*) from ${source.table.sql} as t where ${keyMatchesSql(source, '"~b".key')}) = 1`
          : ''
      }`
  const now = await runStatement<Pick<StatementResult, 'index' | 'after' | 'ownWrites'>>(
    tx,
    statement,
    written,
  )
  return new Map([
    ...results,
    ...now.map(({ index, ...left }) => [index, { ...(results.get(index) as One), ...left }] as const),
  ])
}
