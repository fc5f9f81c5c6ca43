/** Of an error from Postgres; empty for any other. */
export const sqlStateOf = (error: unknown): string => (error as { code?: string } | null)?.code ?? ''

/** A wait for another transaction was too long. */
export const LOCK_NOT_AVAILABLE = '55P03'

/** A statement that was cancelled, at its timeout or by an administrator. */
export const QUERY_CANCELED = '57014'

/** A write in a transaction that may not: by a setting, or on a standby. */
export const READ_ONLY = '25006'

/** Resources that the server lacks for now. 53400 is a limit that is configured. */
const EXHAUSTED = '53[0-3]'

/**
 * SQLSTATEs that concern no row, as a regular expression of JavaScript and of Postgres: a conflict with another transaction,
 * resources that the server lacks for now, a cancelled statement. SQLSTATEs of a lost connection (08, 57P) are not among them:
 * on a connection that still answers, a row (its trigger) has raised them; a lost connection fails again.
 */
export const NON_ROW_STATES = `^(40|${EXHAUSTED}|${LOCK_NOT_AVAILABLE}|${QUERY_CANCELED})`

export const isExhausted = (error: unknown): boolean => new RegExp(`^${EXHAUSTED}`).test(sqlStateOf(error))

/**
 * First line of an error's context if RAISE made the error, as a regular expression of JavaScript and of Postgres. Its words
 * are translated, RAISE is not.
 */
export const RAISED_LINE = '^PL/pgSQL.* RAISE$'
const RAISED = new RegExp(RAISED_LINE)

/** Whether a function of the user's has raised the error: a real conflict comes from a statement. */
export function isRaised(error: unknown): boolean {
  const [line = ''] = contextOf(error).split('\n', 1)
  return RAISED.test(line)
}

/** Whether a trigger or a constraint of a row has waited too long for another transaction, and not the statement for its table. */
export const isRowWait = (error: unknown): boolean =>
  sqlStateOf(error) === LOCK_NOT_AVAILABLE && contextOf(error) !== '' && !isRaised(error)

const contextOf = (error: unknown): string => (error as { where?: string } | null)?.where ?? ''

/** Whether Postgres ended a transaction because it took longer than `transaction_timeout` (from 17 on) allows. */
export const isTransactionTimeout = (error: unknown): boolean =>
  error instanceof Error && sqlStateOf(error) === '25P04'
