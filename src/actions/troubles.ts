import { observeTroubles } from '../domain/observe-troubles.ts'
import type { ObservedTrouble, ObserverOptions } from '../domain/trouble-facts.ts'
import {
  describeTrouble,
  OWN_TROUBLE_TTL_MS,
  type Trouble,
  type TroubleCode,
  type TroubleSeverity,
  type TroubleText,
  toTroubleKind,
  TROUBLES,
} from '../domain/trouble.ts'
import type { Database } from '../store/open.ts'
import { readTroubleFacts } from '../store/trouble-facts.ts'
import { listEndedCauses, listOpenTroubles, type StoredTrouble } from '../store/troubles.ts'

/** The troubles that hold at one moment. */
export interface TroubleSight {
  /** Postgres's clock. */
  readonly now: Date
  readonly isReadOnly: boolean
  readonly speaker: string | null
  readonly isRefused: boolean
  readonly observed: readonly ObservedTrouble[]
  readonly waitingRows: number
  /** Those that are recorded as open. */
  readonly open: readonly StoredTrouble[]
}

/** Reads the stored state, and decides from it which troubles hold. Writes nothing. */
export async function lookForTroubles(db: Database, options: ObserverOptions): Promise<TroubleSight> {
  const facts = await readTroubleFacts(db)
  const { now, isReadOnly, speaker = null, isRefused = false, waitingRows } = facts
  const open = await listOpenTroubles(db)
  const endedCauses = await listEndedCauses(db)
  return {
    now,
    isReadOnly,
    speaker,
    isRefused,
    waitingRows,
    observed: observeTroubles({ ...facts, openTroubles: open, endedCauses }, options),
    open,
  }
}

/** The troubles to show: errors first, then the oldest. They are right even where no process has recorded them yet. */
export async function readTroubles(db: Database, options: ObserverOptions): Promise<Trouble[]> {
  return listShownTroubles(await lookForTroubles(db, options))
}

/** What is observed, since when it is recorded; and what other processes know, or what has only just been seen. Pure. */
function listShownTroubles({
  now,
  observed,
  open,
  waitingRows,
}: Omit<TroubleSight, 'isReadOnly' | 'speaker' | 'isRefused'>): Trouble[] {
  const recorded = new Map(open.map((one) => [troubleId(one), one]))
  const held = open.filter((one) => {
    const { isOwn = false, isRecordedOnly = false, holdMs = 0 } = toTroubleKind(one.code)
    return isRecordedOnly || now.getTime() - one.seenAt.getTime() < (isOwn ? OWN_TROUBLE_TTL_MS : holdMs)
  })
  const shown = new Map<string, Trouble>(
    held.map((one) => [
      troubleId(one),
      // Recorded by another process a while ago: the figure is of now.
      one.code === 'key_refused' ? { ...one, details: { ...one.details, waiting: waitingRows } } : one,
    ]),
  )
  for (const one of observed) {
    const since = recorded.get(troubleId(one))?.since ?? one.since
    const { code, subject, details } = one
    shown.set(troubleId(one), {
      code,
      subject,
      details,
      since,
      severity: TROUBLES[code].severity,
      endedAt: null,
    })
  }
  return [...shown.values()].toSorted(
    (a, b) => a.severity.localeCompare(b.severity) || a.since.getTime() - b.since.getTime(),
  )
}

export const troubleId = ({ code, subject }: Pick<Trouble, 'code' | 'subject'>): string =>
  `${code} ${subject}`

/** A trouble as `status --json` and `GET /api/status` report it. */
export interface ReportedTrouble extends TroubleText {
  readonly code: TroubleCode
  /** Service and key, source, schedule or process; empty if there is only one. */
  readonly subject: string
  readonly severity: TroubleSeverity
  readonly since: Date
}

/** @param now milliseconds since the epoch */
export const toTroubleReport = (trouble: Trouble, now: number): ReportedTrouble => ({
  code: trouble.code,
  subject: trouble.subject,
  severity: trouble.severity,
  since: trouble.since,
  ...describeTrouble(trouble, now),
})
