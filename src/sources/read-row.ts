import { sql } from 'kysely'
import type { InputName } from '../domain/mapping.ts'
import { cellJsonSql, isBlankSql } from './cell.ts'
import { query, isRowError, type Db } from './db.ts'
import { belongsSql, inputSql, joinsSql, MAPPING_INPUTS, rowInputsSql } from './inputs.ts'
import { keyFromTextSql, keyMatchesSql, keyTextSql } from './key.ts'
import { listUnmetSql } from './left-out.ts'
import type { PageRow } from './page.ts'
import type { Source } from './source-model.ts'

/** One row of a user's table as it is now. */
export interface RowValues {
  /** As Fillrate stores it; the requested key may be written differently. */
  readonly key: string
  readonly exists: boolean
  /** The columns that the source writes, outputs first. Empty if the row does not exist. */
  readonly cells: ReadonlyArray<{
    readonly column: string
    readonly value: unknown
    readonly blank: boolean
    readonly touched: boolean
  }>
}

/** What the source's expressions give for the row, the inputs without what Fillrate wrote itself. */
export interface RowEvaluation {
  /** What excludes the row from the source; null if it belongs to it. */
  readonly leftOutBy: 'joins' | 'where' | null
  /** The conditions of `where` that it does not meet, where these leave it out. */
  readonly unmet: readonly string[]
  /** Rows that the joins give for it. More than one is an error in the mapping. */
  readonly joinCount: number
  /** Null if the joins give no row. */
  readonly inputs: Readonly<Record<InputName, string | null>> | null
  readonly inputHash: string | null
  readonly filled: PageRow['filled']
}

/** The given text cannot be a key of this source. */
export class InvalidKeyError extends Error {
  override readonly name = 'NotAKey'
  /** The format of a key. */
  readonly expected: string

  constructor(key: string, expected: string) {
    super(`'${key}' is not a key of this source; expected ${expected}`)
    this.expected = expected
  }
}

/**
 * Reads one row of the table, whether or not it belongs to the source.
 * @param key any text that Postgres casts to the key's type; a JSON array if the key has several columns
 * @throws InvalidKeyError
 */
export async function readRow(db: Db, source: Source, key: string): Promise<RowValues> {
  const cells = [...source.outputs, ...source.touches]
  const values = cells.map((cell) => cellJsonSql(cell))
  const blanks = source.outputs.map((output) => isBlankSql(output))
  const text = `
    select (select ${keyTextSql(source)} from ${keyFromTextSql(source, '$1::text')} as t) as key, found."values", found.blanks
      from (select) as one left join lateral (
        select to_jsonb(array[${values.join(', ')}]::jsonb[]) as "values",
               to_jsonb(array[${blanks.join(', ')}]::boolean[]) as blanks
          from ${source.table.sql} as t where ${keyMatchesSql(source, '$1::text')}
      ) as found on true`
  assertKeyArray(source, key)
  const [row] = await withKeyErrors(source, key, () =>
    query<{ key: string; values: unknown[] | null; blanks: boolean[] | null }>(db, text, [key]),
  )
  return {
    key: row?.key ?? key,
    exists: row?.values != null,
    cells:
      row?.values == null
        ? []
        : cells.map(({ column }, n) => ({
            column,
            value: row.values?.[n] ?? null,
            blank: row.blanks?.[n] ?? row.values?.[n] == null,
            touched: n >= source.outputs.length,
          })),
  }
}

/**
 * Evaluates the source's joins, inputs and `where` for a row that exists.
 * @throws the database's error if an expression fails on this row
 */
export async function evaluateRow(db: Db, source: Source, key: string): Promise<RowEvaluation> {
  const { values, hash: hashSql, filled: filledSql, from } = rowInputsSql(source)
  const columns = MAPPING_INPUTS.map((name) => `${values[name]} as ${name}`)
  const unmetSql = `array[${listUnmetSql(source).join(', ')}]::boolean[]`
  const text = `
    select ${columns.join(', ')}, ${hashSql}::text as hash, ${filledSql} as filled, ${belongsSql(source)} as eligible, ${unmetSql} as unmet
      from ${source.table.sql} as t ${joinsSql(source)} ${from} where ${keyMatchesSql(source, '$1::text')}`
  type Row = Record<InputName, string | null> &
    Pick<PageRow, 'filled'> & { hash: string; eligible: boolean | null; unmet: readonly boolean[] }
  const rows = await query<Row>(db, text, [key])
  const [first] = rows
  if (first === undefined)
    return { leftOutBy: 'joins', unmet: [], joinCount: 0, inputs: null, inputHash: null, filled: null }
  const { hash, filled, eligible: isEligible, unmet, ...inputs } = first
  return {
    leftOutBy: isEligible === true ? null : 'where',
    unmet: isEligible === true ? [] : source.mapping.where.filter((_, n) => unmet[n]),
    joinCount: rows.length,
    inputs,
    inputHash: hash,
    filled,
  }
}

/** The keys that other sources of the table give to the row. */
export async function readKeysIn(
  db: Db,
  source: Source,
  others: readonly Source[],
  key: string,
): Promise<readonly (string | null)[]> {
  if (others.length === 0) return []
  const keys = others.map((other) => keyTextSql(other)).join(', ')
  const [row] = await query<{ keys: readonly (string | null)[] }>(
    db,
    `select array[${keys}]::text[] as keys from ${source.table.sql} as t where ${keyMatchesSql(source, '$1::text')}`,
    [key],
  )
  return row?.keys ?? []
}

function assertKeyArray(source: Source, key: string): void {
  if (source.keyColumns.length === 1) return
  let parts: unknown = null
  try {
    parts = JSON.parse(key)
  } catch {
    // Not JSON at all: reported in the same way.
  }
  if (!Array.isArray(parts) || parts.length !== source.keyColumns.length)
    throw new InvalidKeyError(key, describeKey(source))
}

/** The classes that a cast of the key can raise (`ltree` and others have their own): the statement computes nothing else. */
async function withKeyErrors<T>(source: Source, key: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act()
  } catch (error) {
    if (isRowError(error) && /^(?:22|42601|42P01|XX000)/.test(error.code))
      throw new InvalidKeyError(key, describeKey(source))
    throw error
  }
}

/** `id (uuid)`; of several columns `a JSON array of tenant (text) and id (integer), such as '["…", "…"]'`. */
export function describeKey(source: Pick<Source, 'keyColumns'>): string {
  const columns = source.keyColumns.map(({ name, type }) => `${name} (${type})`)
  if (columns.length === 1) return columns[0] ?? ''
  const example = `[${columns.map(() => '"…"').join(', ')}]`
  return `a JSON array of ${columns.slice(0, -1).join(', ')} and ${columns.at(-1)}, such as '${example}'`
}

/**
 * Keys of the rows whose input has a value, as their table holds it now, whether or not Fillrate has a record of it. Reads the whole
 * table.
 * @param pattern a regular expression that finds the candidates
 * @param isValue decides about a candidate's text
 */
export async function findKeysByInput(
  db: Db,
  source: Source,
  input: InputName,
  pattern: string,
  isValue: (text: string) => boolean,
): Promise<string[]> {
  if (source.mapping.inputs[input] === undefined) return []
  const { rows } = await sql<{ key: string; value: string }>`
    select * from (
      select ${sql.raw(keyTextSql(source))} as key, (${sql.raw(inputSql(source, input))})::text as value
        from ${sql.raw(source.table.sql)} as t ${sql.raw(joinsSql(source))}) as one
     where value collate "default" ~* ${pattern} and key is not null`.execute(db)
  return [...new Set(rows.filter(({ value }) => isValue(value)).map(({ key }) => key))]
}
