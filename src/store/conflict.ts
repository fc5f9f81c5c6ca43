import { sql, type Transaction } from 'kysely'
import type { Schema } from './schema.ts'

/**
 * Two transactions met (deadlock, serialization failure, lock not available): either could have gone on. Postgres is
 * there, so that waiting for it helps nothing; trying again does.
 */
const CONFLICT = new Set(['40P01', '40001', '55P03'])
const QUERY_CANCELED = '57014'

const codeOf = (error: unknown): string => (error as { code?: string } | null)?.code ?? ''

/** Whether a statement failed because it met another transaction. */
export const isConflict = (error: unknown): boolean => error instanceof Error && CONFLICT.has(codeOf(error))

/** Longer than a person should wait for us, and no longer than Postgres waits before it looks for a deadlock. */
export const LOCK_WAIT_MS = 500

/** Why a statement on a user's table was given up. */
export class TableBusy extends Error {
  override readonly name = 'TableBusy'
  /** `locked`: another transaction holds a lock. `slow`: it took longer than it may. */
  readonly why: 'locked' | 'slow'
  /** A function of the user's has raised it with these words. */
  readonly raised: string | null
  /** No row is at fault: the table itself is locked. */
  readonly isTable: boolean

  constructor(why: 'locked' | 'slow', cause: Error) {
    super(cause.message, { cause })
    this.why = why
    const { where = '' } = cause as { where?: string }
    this.raised = RAISED.test(where) ? cause.message : null
    this.isTable = why === 'locked' && codeOf(cause) === '55P03' && where === ''
  }
}

/** The first line of an error's context, where RAISE has made the error: a true conflict comes out of a statement. */
const RAISED = /^PL\/pgSQL function [^\n]* at RAISE/

/**
 * Does something on a user's table with a bound on its statements and on their waits for locks. Local to the
 * transaction, which keeps it right behind a pooler.
 * @throws TableBusy when it took too long or met another transaction
 */
export async function onUsersTable<T>(
  tx: Transaction<Schema>,
  timeoutMs: number,
  act: () => Promise<T>,
): Promise<T> {
  await sql`
    select set_config('lock_timeout', ${`${LOCK_WAIT_MS}ms`}, true),
           set_config('fillrate.timeout_before', current_setting('statement_timeout'), true),
           set_config('statement_timeout', ${`${Math.round(timeoutMs)}ms`}, true)`.execute(tx)
  const began = performance.now()
  let did: T
  try {
    did = await act()
  } catch (error) {
    if (isConflict(error)) throw new TableBusy('locked', error as Error)
    if (codeOf(error) !== QUERY_CANCELED) throw error
    // Canceled before its time: by an administrator, which says nothing of the rows.
    throw new TableBusy(performance.now() - began < timeoutMs ? 'locked' : 'slow', error as Error)
  }
  await sql`
    select set_config('lock_timeout', '0', true),
           set_config('statement_timeout', current_setting('fillrate.timeout_before'), true)`.execute(tx)
  return did
}
