import { CompiledQuery, type QueryExecutorProvider } from 'kysely'

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
export async function tryRows<Row>(
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
