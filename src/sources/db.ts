import { CompiledQuery, type QueryExecutorProvider } from 'kysely'
import { splitName } from '../util/text.ts'
import { findFunction, NON_ROW_STATES, type DatabaseError } from '../util/error-text.ts'

/** An identifier in double quotes, which keeps its case, reserved words and dots. */
export const quoteName = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** A text as an SQL literal, whatever `standard_conforming_strings` is set to. */
export function quoteLiteral(text: string): string {
  const quoted = `'${text.replaceAll("'", "''")}'`
  return text.includes('\\') ? `E${quoted.replaceAll('\\', '\\\\')}` : quoted
}

/** Texts as an SQL array of text. */
export const quoteList = (texts: readonly string[]): string =>
  texts.length === 0 ? `'{}'::text[]` : `array[${texts.map(quoteLiteral).join(', ')}]`

/** The opposite of `splitName`: quotes only where they are needed. */
export const joinName = (parts: readonly string[]): string =>
  parts.map((part) => (/[."\s]/.test(part) || part === '' ? quoteName(part) : part)).join('.')

/** Parses a table's name as Postgres does: without quotes, it is folded to lower case. */
export function parseTableName(name: string): { readonly schema: string | null; readonly table: string } {
  const parts = splitName(name, (part) => part.toLowerCase())
  const table = parts.at(-1) ?? ''
  return { schema: parts.length > 1 ? (parts.at(-2) ?? null) : null, table }
}

/** A name as it must appear in the configuration's `table`: quoted only where folding would change it. */
export const formatTableName = (schema: string, table: string): string =>
  [schema, table].map(quoteIfNeeded).join('.')

/** Quotes a name only if it needs it: after a dot, a reserved word does not. */
export const quoteIfNeeded = (name: string): string =>
  /^[a-z_][a-z0-9_$]*$/.test(name) ? name : quoteName(name)

/** A Kysely database or transaction of any schema: this folder works on tables that no type describes. */
export type Db = QueryExecutorProvider

/** Runs SQL text as it is, with `$1` parameters, and returns its rows. */
export async function query<Row>(
  db: Db,
  text: string,
  parameters: readonly unknown[] = [],
): Promise<readonly Row[]> {
  const compiled = CompiledQuery.raw(text, [...parameters]) as CompiledQuery<Row>
  const { rows } = await db.getExecutor().executeQuery<Row>(compiled)
  return rows
}

/** The first column of the first row; null without one. */
export async function queryValue<Value>(
  db: Db,
  text: string,
  parameters: readonly unknown[] = [],
): Promise<Value | null> {
  const [row] = await query<Readonly<Record<string, Value>>>(db, text, parameters)
  return row === undefined ? null : (Object.values(row)[0] ?? null)
}

/**
 * Runs a statement that may fail, without aborting the transaction that it may be in.
 * @returns the error that the database raised, or null
 */
export async function tryQuery(db: Db, text: string, parameters: readonly unknown[] = []): Promise<unknown> {
  const attempt = await tryRows(db, text, parameters)
  return 'error' in attempt ? attempt.error : null
}

/** Runs a query that may fail, in the same way. */
async function tryRows<Row>(
  db: Db,
  text: string,
  parameters: readonly unknown[] = [],
): Promise<{ readonly rows: readonly Row[] } | { readonly error: unknown }> {
  const inTransaction = 'isTransaction' in db && db.isTransaction === true
  try {
    if (inTransaction) await query(db, 'savepoint fillrate_attempt')
    const rows = await query<Row>(db, text, parameters)
    if (inTransaction) await query(db, 'release savepoint fillrate_attempt')
    return { rows }
  } catch (error) {
    if (inTransaction) await query(db, 'rollback to savepoint fillrate_attempt')
    return { error }
  }
}

const NON_ROW = new RegExp(NON_ROW_STATES)

/**
 * Classes that mostly concern the statement, its privileges or the system, but a row if its value alone raises them:
 * `ltree` input fails with 42601, `regclass` with 42P01, `hstore` and PostGIS with XX000, and a trigger may raise
 * anything. The class does not tell them apart; running the statement without any row does.
 */
const AMBIGUOUS_CLASSES = new Set(['0A', '25', '26', '28', '2D', '3D', '42', '58', 'F0', 'XX'])

/** Whether the error has a SQLSTATE: Postgres raised it. */
export const isCodedError = (error: unknown): error is DatabaseError =>
  error instanceof Error &&
  'code' in error &&
  typeof error.code === 'string' &&
  /^[\dA-Z]{5}$/.test(error.code)

/** Whether the database rejected values, so that other rows of the batch may still be written. */
export const isRowError = (error: unknown): error is DatabaseError =>
  isCodedError(error) && !NON_ROW.test(error.code)

/** Whether such an error must be checked without any row before a row is blamed. */
export const isAmbiguousError = (error: DatabaseError): boolean =>
  AMBIGUOUS_CLASSES.has(error.code.slice(0, 2))

/**
 * Adds to errors the sources of the functions in which they happened: the source of a function tells its words from the
 * values that it quotes. One statement, and none where no function was involved.
 * @param db a transaction too: a function that cannot be found does not abort it
 */
export async function addFunctionSources<Failure extends DatabaseError>(
  db: Db,
  errors: readonly Failure[],
): Promise<Failure[]> {
  const signatures = new Set(errors.flatMap(({ where }) => findFunction(where)?.signature ?? []))
  if (signatures.size === 0) return [...errors]
  const found = await tryRows<{ signature: string; source: string }>(
    db,
    `select s.signature, p.prosrc as source from unnest($1::text[]) as s (signature)
       join pg_proc p on p.oid = to_regprocedure(s.signature)`,
    [[...signatures]],
  )
  if ('error' in found) return [...errors]
  const sources = new Map(found.rows.map(({ signature, source }) => [signature, source]))
  return errors.map((error) => ({
    ...error,
    code: error.code,
    message: error.message,
    where: error.where,
    source: sources.get(findFunction(error.where)?.signature ?? '') ?? null,
  }))
}
