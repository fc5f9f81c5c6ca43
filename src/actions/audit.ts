import * as audit from '../store/audit.ts'
import { describeError, READ_ONLY, sqlStateOf } from '../util/error-text.ts'
import { hostname, userInfo } from 'node:os'
import { expiresAfter, retryWhileUnavailable } from '../store/transaction.ts'
import type { Database } from '../store/open.ts'
import { formatCount, pluralize } from '../util/text.ts'
import type { ForgetDeletedReport } from '../runs/pick-sources.ts'

/** How long an action waits for Postgres, which it has reached a moment ago, to be recorded. */
const AUDIT_WAIT_MS = 60_000

/** How an action ended, for the audit list. */
export interface AuditEnd {
  readonly outcome: audit.AuditOutcome
  readonly detail: string | null
  /** The run that it started or changed. */
  readonly run?: number | null
}

/**
 * Executes an action and records it in the audit list before it begins, so that the list also has an action whose
 * process dies; its outcome follows when it ends.
 * @param describe the outcome of the result
 * @throws the error of `act`, after it was recorded
 * @example
 * const event = { actor: createLocalActor('command line'), action: 'resume', parameters: { sources } } as const
 * await auditAction(db, event, () => resume(), () => ({ outcome: 'done', detail: null }))
 */
export async function auditAction<Result>(
  db: Database,
  event: Omit<audit.NewAuditEvent, 'requestId'>,
  act: () => Promise<Result>,
  describe: (result: Result) => AuditEnd,
): Promise<Result> {
  const isExpired = expiresAfter(AUDIT_WAIT_MS)
  const id = await retryWhileUnavailable(() => audit.insertAuditEvent(db, event), {
    // Nothing has begun, and a role or a server that may not write most likely never may.
    giveUp: (error) => sqlStateOf(error) === READ_ONLY || isExpired(),
  })
  if (id === null) throw new Error('inserting the audit event returned no row')
  return finishAction(db, id, act, describe)
}

/**
 * The same for a form, which may be sent twice.
 * @returns null if it was sent before: the action is not done again
 */
export async function auditActionOnce<Result>(
  db: Database,
  event: audit.NewAuditEvent & { readonly requestId: string },
  act: () => Promise<Result>,
  describe: (result: Result) => AuditEnd,
): Promise<Result | null> {
  const id = await audit.insertAuditEvent(db, event)
  return id === null ? null : finishAction(db, id, act, describe)
}

async function finishAction<Result>(
  db: Database,
  id: number,
  act: () => Promise<Result>,
  describe: (result: Result) => AuditEnd,
): Promise<Result> {
  try {
    const result = await act()
    const end = describe(result)
    await retryWhileUnavailable(() => audit.finishAuditEvent(db, id, end), {
      giveUp: expiresAfter(AUDIT_WAIT_MS),
    })
    return result
  } catch (error) {
    // The error matters more than its record, which stays as one without an outcome.
    await audit.finishAuditEvent(db, id, { outcome: 'failed', detail: describeError(error) }).catch(() => {})
    throw error
  }
}

/** The user of this process, as `user@host`. A user of a container may have no name. */
export function createLocalActor(origin: 'command line' | 'library'): audit.Actor {
  const host = hostname()
  try {
    return { name: `${userInfo().username}@${host}`, origin }
  } catch {
    return { name: `a user of ${host}`, origin }
  }
}

/** The outcome of a run or an undo. Pure. */
export function toAuditOutcome(status: string): audit.AuditOutcome {
  if (status === 'interrupted') return 'interrupted'
  return ['failed', 'unauthorized', 'misconfigured'].includes(status) ? 'failed' : 'done'
}

/** How the erasure of deleted rows ended. */
export function describeForgetDeleted({ deleted, erased }: ForgetDeletedReport): AuditEnd {
  const rows = erased?.rows ?? 0
  const rest = deleted - rows
  return {
    outcome: 'done',
    detail: `${pluralize(rows, 'row')} erased${rest > 0 ? `, ${formatCount(rest)} not: restored, waiting for an answer, or left for another time` : ''}`,
  }
}
