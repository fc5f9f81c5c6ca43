import { describeError, type DatabaseError } from '../util/error-text.ts'
import { sql } from 'kysely'
import { describeUnsearched } from './check/expressions.ts'
import { query, isAmbiguousError, isRowError, type Db } from './db.ts'
import { inputSql, joinsSql, MAPPING_INPUTS } from './inputs.ts'
import { keyMatchesSql, keyTextSql } from './key.ts'
import { keysQuery, pageConditions, parseDuplicateKey, type SourcePageOptions } from './page.ts'
import { SourceProblems, type SourceProblem } from './problems.ts'
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
  if (duplicate !== null)
    return toSourceProblems(error, {
      source: source.name,
      place: 'joins',
      found: JOINED_TWICE,
      key: duplicate,
      expected: 'at most one row for each key',
      todo: 'Join one row alone, such as with: left join lateral (select … order by … limit 1) a on true',
    })
  if (!isRowError(error)) return null
  const unsearched = describeUnsearched(source.table, error)
  // If it fails without any row too, the statement itself is wrong.
  if (
    unsearched === null &&
    isAmbiguousError(error) &&
    'error' in (await catchRowError(() => keysQuery(source, []).execute(db)))
  )
    return null
  const key = await findFailingKey(db, source, page)
  if (key === null && unsearched === null) return null
  const input = key === null ? null : await findFailingInput(db, source, key)
  return toSourceProblems(error, {
    source: source.name,
    place: input === null ? 'outputs' : `inputs.${input.name}`,
    found: describeError(input?.error ?? error),
    ...(key !== null && { key }),
    expected: 'an expression that gives one value for every row',
    todo: unsearched ?? 'Correct the expression, or leave such rows out with `where`.',
  })
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
