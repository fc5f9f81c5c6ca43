import {
  type Condition,
  type ConditionDetails,
  type ConditionKind,
  describeCondition,
  describeEnd,
  severityOf,
} from '../domain/condition.ts'
import { reportCondition, type StoredCondition } from '../store/conditions.ts'
import type { Database } from '../store/open.ts'
import type { Log } from '../util/log.ts'

/** Logs that a condition began: what it is, what it means, and what to do. */
export function logBegin(log: Log, condition: Condition): void {
  const { kind, service, source, since, details } = condition
  const { title, meaning, mend, proof } = describeCondition(condition, Date.now())
  const level = severityOf(condition) === 'error' ? 'error' : 'warn'
  log[level](
    { event: 'condition_began', kind, service, source, since, ...details, meaning, mend, proof },
    title,
  )
}

/** Logs that a condition is over. @param ms how long it lasted, in milliseconds */
export function logEnd(log: Log, condition: Condition, ms: number): void {
  const { kind, service, source } = condition
  log.info(
    { event: 'condition_ended', kind, service, source, ms: Math.round(ms) },
    describeEnd(condition, ms),
  )
}

/** Logs conditions that have begun or ended. */
export function logChanges(log: Log, changed: readonly StoredCondition[]): void {
  for (const one of changed)
    if (one.endedAt === null) logBegin(log, one)
    else logEnd(log, one, Math.max(0, one.endedAt.getTime() - one.since.getTime()))
}

/**
 * Begins the condition of a source, refreshes it, or ends it, whichever process began it, and logs that.
 * @param details null: it does not hold
 */
export async function reportSource(
  { db, log }: { readonly db: Database; readonly log: Log },
  kind: ConditionKind,
  source: string,
  details: ConditionDetails | null,
): Promise<void> {
  logChanges(log, await reportCondition(db, kind, source, details))
}
