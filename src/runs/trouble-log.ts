import { describeEnd } from '../domain/notification.ts'
import {
  describeTrouble,
  type Trouble,
  type TroubleCode,
  type TroubleDetails,
  troubleDurationMs,
  TROUBLES,
} from '../domain/trouble.ts'
import { reportTroubles, type TroubleChanges } from '../store/troubles.ts'
import type { Database } from '../store/open.ts'
import { hostname } from 'node:os'
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

/**
 * Begins the trouble of a subject, refreshes it, or ends it, whichever process began it.
 * @param details null: it has none
 */
export async function reportSubjectTrouble(
  { db, log }: { readonly db: Database; readonly log: Log },
  code: TroubleCode,
  subject: string,
  details: TroubleDetails | null,
): Promise<void> {
  const report = { reporter: `${hostname()}:${process.pid}`, codes: [code], subject }
  const observed = details === null ? [] : [{ code, subject, since: new Date(), details }]
  logTroubleChanges(log, await reportTroubles(db, report, observed))
}
