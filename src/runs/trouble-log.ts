import { describeEnd } from '../domain/notification.ts'
import { describeTrouble, type Trouble, troubleDurationMs, TROUBLES } from '../domain/trouble.ts'
import type { TroubleChanges } from '../store/troubles.ts'
import type { Log } from '../util/log.ts'

type LoggedTrouble = Pick<Trouble, 'code' | 'subject' | 'details'>

/** Logs that a trouble began: what it is, what it means, and what to do. */
export function logTroubleBegin(log: Log, trouble: LoggedTrouble, since: Date): void {
  const { code, subject, details } = trouble
  const { title, meaning, action } = describeTrouble(trouble, Date.now())
  const level = TROUBLES[code].severity === 'error' ? 'error' : 'warn'
  log[level]({ event: 'trouble_began', code, subject, since, ...details, meaning, action }, title)
}

/** Logs that a trouble is over. @param ms how long it lasted, in milliseconds */
export function logTroubleEnd(log: Log, trouble: LoggedTrouble, ms: number): void {
  const { code, subject } = trouble
  log.info({ event: 'trouble_ended', code, subject, ms: Math.round(ms) }, describeEnd(trouble, ms).title)
}

/** Logs what a report has changed. */
export function logTroubleChanges(log: Log, { begun, ended }: TroubleChanges): void {
  for (const trouble of begun) logTroubleBegin(log, trouble, trouble.since)
  for (const trouble of ended) logTroubleEnd(log, trouble, troubleDurationMs(trouble, Date.now()))
}
