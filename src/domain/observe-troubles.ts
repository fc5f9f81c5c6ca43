import type { RateStatus } from './rate-status.ts'
import { findNotableRejections } from './rejected-writes.ts'
import { QUEUED_REASON, ScheduledRun } from './schedule.ts'
import { findSlowness } from './slowness.ts'
import type { ObserverOptions, TroubleFacts } from './trouble-facts.ts'
import { type ObservedTrouble, OWN_TROUBLE_TTL_MS, type TroubleDetails, toTroubleKind } from './trouble.ts'

const MINUTE = 60_000
/** Calls that wait for less than this are no trouble, nor those that wait for one window of a known length. */
const MIN_WAIT_MS = 10_000
const MAX_WAIT_MS = 10 * MINUTE
/** A scheduled run starts within a second; a queued one waits for another run of its sources. */
const LATE_MS = 5 * MINUTE
const LATE_IN_QUEUE_MS = 30 * MINUTE
/** A changed row is picked within a second; an import is picked in parts, after everything else. */
const BEHIND_MS = 2 * MINUTE
const IMPORT_BEHIND_MS = 60 * MINUTE
/** A circuit is probed at least every minute while a leader is alive. */
const UNPROBED_MS = 2 * MINUTE
/** By then a process has recorded that its key was rejected. */
const KEY_REPORT_MS = 10_000

/** Decides which troubles hold. Pure: the same facts give the same troubles in every process. */
export function observeTroubles(facts: TroubleFacts, options: ObserverOptions): ObservedTrouble[] {
  const own = observeOwn(facts, options)
  const circuits = observeCircuits(facts)
  return [
    ...own,
    ...circuits,
    ...facts.leaders.flatMap((leader) => observeRate(facts, leader)),
    ...observeSlowness(facts),
    ...observeBudgets(facts),
    ...observeChanges(facts),
    ...observeRuns(facts, [...own, ...circuits, ...listOwnOfOthers(facts)]),
    ...observeJobs(facts),
    ...observeRejectedWrites(facts),
    ...observeSchedules(facts, options),
  ]
}

function observeOwn({ now, waitingRows }: TroubleFacts, { own }: ObserverOptions): ObservedTrouble[] {
  const ago = (ms: number): Date => new Date(now.getTime() - ms)
  return own.map(({ code, subject, details, forMs, seenAgoMs }) => ({
    code,
    subject,
    since: ago(forMs),
    knownAt: ago(seenAgoMs),
    details: { ...details, ...(code === 'key_refused' && { waiting: waitingRows }) },
  }))
}

const lasted = (since: Date, now: Date): number => now.getTime() - since.getTime()

/** A circuit that no process probes any more says what was, and its run has failed for it. */
const observeCircuits = ({ now, circuits, leaders, waitingRows }: TroubleFacts): ObservedTrouble[] =>
  circuits
    .filter(
      ({ scope, probeAt }) =>
        lasted(probeAt, now) < UNPROBED_MS || leaders.some((one) => one.scope === scope),
    )
    .map(({ scope, openedAt, probeAt, reason, isUnreachable }) => ({
      code: isUnreachable ? 'service_down' : 'circuit_open',
      subject: scope,
      since: openedAt,
      details: { reason: reason ?? undefined, waiting: waitingRows, until: probeAt.toISOString() },
    }))

function observeRate(
  { now, waitingRows }: TroubleFacts,
  { scope, status }: TroubleFacts['leaders'][number],
): ObservedTrouble[] {
  if (status === null) return []
  const found: ObservedTrouble[] = []
  const isBanned = status.state === 'banned'
  if (isBanned) found.push({ code: 'banned', subject: scope, since: now, details: { waiting: waitingRows } })
  if (status.sharedKey) found.push({ code: 'shared_key', subject: scope, since: now, details: {} })
  const waitedMs = status.stallReason === null ? 0 : (status.stalledForMs ?? 0)
  if (!isBanned && waitedMs >= longestUsualWaitMs(status))
    found.push({
      code: 'calls_waiting',
      subject: scope,
      since: new Date(now.getTime() - waitedMs),
      details: {
        ms: waitedMs,
        reason: status.stallReason ?? undefined,
        waiting: waitingRows,
        ...(status.nextWindowAt !== null && { until: toIso(status.nextWindowAt) }),
      },
    })
  return found
}

const toIso = (ms: number): string | undefined => {
  const date = new Date(ms)
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString()
}

/** With a limit of 60 a minute, calls wait for the next window every minute. */
const longestUsualWaitMs = ({ windowMs }: RateStatus): number =>
  Math.min(MAX_WAIT_MS, Math.max(MIN_WAIT_MS, (windowMs ?? 0) * 1.25))

function observeSlowness({ now, calls }: TroubleFacts): ObservedTrouble[] {
  const found = findSlowness(calls, now.getTime())
  if (found === null) return []
  const details = { ms: found.ms, usualMs: calls.usualMs ?? undefined }
  return [{ code: 'service_slow', subject: '', since: new Date(found.since), details }]
}

/** A budget below the backlog is a choice, and a backfill shows its progress: only single edits may not wait for it. */
function observeBudgets({ now, spentBudgets, changes }: TroubleFacts): ObservedTrouble[] {
  const midnight = new Date(now)
  midnight.setUTCHours(24, 0, 0, 0)
  return spentBudgets.flatMap(({ isOfImports, source, limit, isInCredits }) => {
    const own = changes.filter((one) => source === null || one.source === source)
    const waiting = own.reduce((sum, { edits }) => sum + edits, 0)
    if (isOfImports || waiting === 0) return []
    const details = {
      limit,
      waiting,
      until: midnight.toISOString(),
      ...(isInCredits && { unit: 'credits' as const }),
    }
    // Nothing stores when it was spent; its record does from now on.
    return [{ code: 'live_sync_budget_spent' as const, subject: source ?? '', since: now, details }]
  })
}

function observeChanges({ now, changes, spentBudgets, hasDaemon }: TroubleFacts): ObservedTrouble[] {
  // What waits for midnight is one trouble, not two.
  const isSpent = (source: string, isOfImports: boolean): boolean =>
    spentBudgets.some(
      (one) => one.isOfImports === isOfImports && (one.source === null || one.source === source),
    )
  return changes.flatMap(({ source, count, oldestEditAt, oldestImportAt }) => {
    const isLate = (at: Date | null, limitMs: number): at is Date => at !== null && lasted(at, now) > limitMs
    const late = [
      ...(isLate(oldestEditAt, BEHIND_MS) && !isSpent(source, false) ? [oldestEditAt] : []),
      ...(isLate(oldestImportAt, IMPORT_BEHIND_MS) && !isSpent(source, true) ? [oldestImportAt] : []),
    ].toSorted((a, b) => a.getTime() - b.getTime())
    const [since] = late
    if (since === undefined) return []
    const details = { ms: lasted(since, now), waiting: count, ...withoutDaemon(hasDaemon) }
    return [{ code: 'live_sync_behind', subject: source, since, details }]
  })
}

const withoutDaemon = (hasDaemon: boolean): TroubleDetails =>
  hasDaemon ? {} : { reason: 'no daemon is running' }

/** What other processes know: without it, what one process leaves out another one would report, in turn. */
const listOwnOfOthers = ({ now, openTroubles }: TroubleFacts): TroubleFacts['openTroubles'] =>
  openTroubles.filter(
    ({ code, seenAt }) => toTroubleKind(code).isOwn === true && lasted(seenAt, now) < OWN_TROUBLE_TTL_MS,
  )

/** @param causes a run that failed for one of these says the same again */
function observeRuns(
  { lastRuns, now }: TroubleFacts,
  causes: readonly Pick<ObservedTrouble, 'code' | 'subject'>[],
): ObservedTrouble[] {
  const down = new Set(causes.filter(({ code }) => code !== 'reload_refused').map(({ subject }) => subject))
  return lastRuns.flatMap(({ run, sources, scope, status, reason, finishedAt }): ObservedTrouble[] => {
    const subject = sources.length > 3 ? `${sources.length} sources` : sources.join(', ')
    const common = { subject, since: finishedAt }
    // The process whose key was rejected records that within seconds.
    if (status === 'unauthorized' && lasted(finishedAt, now) < KEY_REPORT_MS) return []
    if ((status !== 'failed' && status !== 'unauthorized') || (scope !== null && down.has(scope))) return []
    return [{ ...common, code: 'run_failed', details: { run, sources, reason: reason ?? undefined } }]
  })
}

const observeJobs = ({ overdueJobs: { jobs, since }, now }: TroubleFacts): ObservedTrouble[] =>
  jobs === 0 ? [] : [{ code: 'jobs_overdue', subject: '', since: since ?? now, details: { waiting: jobs } }]

const observeRejectedWrites = ({ rejectedWrites }: TroubleFacts): ObservedTrouble[] =>
  rejectedWrites.flatMap(({ source, rows, reason, runs }) => {
    const since = findNotableRejections(runs)
    if (since === null) return []
    const details = { waiting: rows, reason: reason ?? undefined }
    return [{ code: 'writes_rejected', subject: source, since, details }]
  })

function observeSchedules(
  { now, scheduledRuns, hasDaemon }: TroubleFacts,
  { schedules }: ObserverOptions,
): ObservedTrouble[] {
  return scheduledRuns.flatMap(({ schedule, at, state, isHeld, reason }) => {
    if (schedules !== null && !schedules.has(schedule)) return []
    const late = (since: Date, limitMs: number, why: string | null): ObservedTrouble[] => {
      const ms = lasted(since, now)
      if (ms <= limitMs) return []
      return [
        {
          code: 'schedule_late',
          subject: schedule,
          since,
          details: { ms, ...(why !== null && { reason: why }) },
        },
      ]
    }
    const withoutProcess = hasDaemon ? null : 'no daemon is running'
    if (state === ScheduledRun.waiting)
      return late(
        at,
        reason === QUEUED_REASON && hasDaemon ? LATE_IN_QUEUE_MS : LATE_MS,
        withoutProcess ?? reason,
      )
    if (state === ScheduledRun.running && !isHeld)
      return late(at, LATE_MS, withoutProcess ?? 'its process died, and no other has taken over')
    const due = schedules?.get(schedule) ?? null
    return due !== null && due > at.getTime()
      ? late(new Date(due), LATE_MS, withoutProcess ?? 'no process has started it')
      : []
  })
}
