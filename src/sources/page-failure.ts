import { describeError, type DatabaseError } from '../util/error-text.ts'
import { sql } from 'kysely'
import { describeUnsearched } from './check/search-path.ts'
import { type Db, query, queryValue } from './db.ts'
import { inputSql, joinsSql, MAPPING_INPUTS } from './inputs.ts'
import { keyMatchesSql, keyTextSql } from './key.ts'
import { keysQuery, pageConditions, parseDuplicateKey, type SourcePageOptions } from './page.ts'
import { isAmbiguousError, isRowError } from './pg-errors.ts'
import { type SourceProblem, SourceProblems } from './problems.ts'
import type { Source } from './source-model.ts'

/** What is found where joins multiply a row. */
export const JOINED_TWICE = 'more than one row'

/**
 * Finds out why a page could not be read, and for which key: joins that give two rows, a sub-select that gives more than
 * one, an expression that fails on one row's data. Bisects the page, which takes about ten statements.
 * @param db not the transaction in which the page failed: it is aborted
 * @param page the page, or the keys of the rows that were read
 * @returns null if the error says nothing about the source's rows
 */
export async function explainPageFailure(
  db: Db,
  source: Source,
  page: SourcePageOptions | { readonly keys: readonly string[] },
  error: unknown,
): Promise<SourceProblems | null> {
  const duplicate = parseDuplicateKey(error)
  if (duplicate !== null && source.table.isInherited && (await isTwiceInTable(db, source, duplicate)))
    return toSourceProblems(error, toInheritedProblem(source, duplicate))
  if (duplicate !== null)
    return toSourceProblems(error, {
      source: source.name,
      place: 'joins',
      found: JOINED_TWICE,
      key: duplicate,
      expected: 'at most one row for each row of the table',
      todo: 'Join one row alone, such as with: left join lateral (select … order by … limit 1) a on true',
    })
  if (!isRowError(error)) return null
  const unsearched = await describeUnsearched(db, error)
  if (unsearched !== null)
    return toSourceProblems(error, {
      source: source.name,
      place: 'table',
      found: describeError(error),
      expected: 'functions in its expressions and policies that find their names in every session',
      todo: unsearched,
    })
  // If it fails without any row too, the statement itself is wrong.
  if (isAmbiguousError(error) && 'error' in (await catchRowError(() => keysQuery(source, []).execute(db))))
    return null
  const key = await findFailingKey(db, source, page)
  if (key === null) return null
  const input = await findFailingInput(db, source, key)
  return toSourceProblems(error, {
    source: source.name,
    place: input === null ? 'outputs' : `inputs.${input.name}`,
    found: describeError(input?.error ?? error),
    key,
    expected: 'an expression that gives one value for every row',
    todo: 'Correct the expression, or leave such rows out with `where`.',
  })
}

const toInheritedProblem = ({ name, table }: Source, key: string): SourceProblem => ({
  source: name,
  place: 'table',
  found: `more than one row with the same key, because other tables inherit from ${table.sql}`,
  key,
  expected:
    'one row for each key: a unique index holds for its own table alone, and not for those that inherit from it',
  todo: `Give the rows of the other tables keys of their own, or take a table out: alter table … no inherit ${table.sql}`,
})

/**
 * A key that a table and those that inherit from it repeat, as a problem, whatever the condition of the source: rows are found by
 * their keys. Reads all keys, of such tables alone.
 */
export async function findInheritedKey(db: Db, source: Source): Promise<SourceProblem | null> {
  if (!source.table.isInherited) return null
  const repeated = `select ${keyTextSql(source)} from ${source.table.sql} as t group by 1 having count(*) > 1 limit 1`
  const key = await queryValue<string>(db, repeated)
  return key === null ? null : toInheritedProblem(source, key)
}

async function isTwiceInTable(db: Db, source: Source, key: string): Promise<boolean> {
  const found = `select from ${source.table.sql} as t where ${keyMatchesSql(source, '$1::text')}`
  return (await query(db, found, [key])).length > 1
}

/** The problem of a page that times out even with one row. */
export const pageTimeoutProblem = ({ name }: Source, timeoutMs: number, cause: Error): SourceProblems =>
  new SourceProblems(
    [
      {
        source: name,
        place: 'where',
        found: `reading the next row takes longer than ${timeoutMs / 1_000} s`,
        expected: 'a page of rows within that time',
        todo: 'Check the plan of its conditions and joins: usually an index is missing.',
      },
    ],
    { cause },
  )

const toSourceProblems = (cause: unknown, problem: SourceProblem): SourceProblems =>
  new SourceProblems([problem], { cause })

async function findFailingKey(
  db: Db,
  source: Source,
  page: Parameters<typeof explainPageFailure>[2],
): Promise<string | null> {
  let keys = 'keys' in page ? page.keys : await listPageKeys(db, source, page)
  while (keys.length > 1) {
    const half = keys.slice(0, Math.ceil(keys.length / 2))
    const read = await catchRowError(() => keysQuery(source, half).execute(db))
    keys = 'error' in read ? half : keys.slice(half.length)
  }
  const [last] = keys
  if (last === undefined) return null
  const read = await catchRowError(() => keysQuery(source, keys).execute(db))
  return 'error' in read ? last : null
}

/** Empty if they cannot be read either. */
async function listPageKeys(db: Db, source: Source, options: SourcePageOptions): Promise<readonly string[]> {
  const rows = sql<{ key: string }>`
    select ${sql.raw(keyTextSql(source))} as key from ${sql.raw(source.table.sql)} as t ${sql.raw(joinsSql(source))}
     where ${pageConditions(source, options)} limit ${options.limit}`
  const found = await catchRowError(async () => (await rows.execute(db)).rows.map((row) => row.key))
  return 'error' in found ? [] : found.value
}

async function findFailingInput(
  db: Db,
  source: Source,
  key: string,
): Promise<{ readonly name: string; readonly error: DatabaseError } | null> {
  for (const name of MAPPING_INPUTS) {
    const value = `select ${inputSql(source, name)} from ${source.table.sql} as t ${joinsSql(source)} where ${keyMatchesSql(source, '$1::text')}`
    const read = await catchRowError(() => query(db, value, [key]))
    if ('error' in read) return { name, error: read.error }
  }
  return null
}

async function catchRowError<T>(
  act: () => Promise<T>,
): Promise<{ readonly value: T } | { readonly error: DatabaseError }> {
  try {
    return { value: await act() }
  } catch (error) {
    if (isRowError(error)) return { error }
    throw error
  }
}
