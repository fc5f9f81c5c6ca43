import { CAUSE_CODES, type Cause, Causes, CIRCUIT_TROUBLES } from './causes.ts'
import type { RateStatus } from './rate-status.ts'
import { findNotableRejections } from './rejected-writes.ts'
import { QUEUED_REASON, ScheduledRun } from './schedule.ts'
import type { ObservedTrouble, ObserverOptions, TroubleFacts } from './trouble-facts.ts'
import { OWN_TROUBLE_TTL_MS, type TroubleDetails } from './trouble.ts'

const MINUTE = 60_000
/** Calls that wait for less than this, or for one window of a known length, are no trouble. */
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
/** By then a process has recorded why a run has failed. */
const CAUSE_REPORT_MS = 10_000
const ANY = { scope: null, sources: [] }

/** Decides which troubles hold. Pure: the same facts give the same troubles in every process. */
export function observeTroubles(facts: TroubleFacts, options: ObserverOptions): ObservedTrouble[] {
  const found = [
    ...observeOwn(facts, options),
    ...observeCircuits(facts),
    ...facts.leaders.flatMap((leader) => observeRateCauses(facts, leader)),
  ]
  const causes = new Causes([
    ...found.map(({ code, subject }) => ({ code, subject, endedAt: null })),
    ...listRecorded(facts),
    ...facts.endedCauses,
  ])
  return [
    ...found,
    ...facts.leaders.flatMap((leader) => observeWaits(facts, leader, causes)),
    ...observeBudgets(facts),
    ...observeRuns(facts, causes),
    ...observeJobs(facts),
    ...observeRejectedWrites(facts),
    ...joinIdle(facts, [...observeChanges(facts, causes), ...observeSchedules(facts, options, causes)]),
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

/**
 * A circuit that no process probes any more says what was, unless a run has failed for it: then it is not over before the
 * next one, and a call that is answered deletes it. Credits do not come back by themselves.
 */
const observeCircuits = ({
  now,
  circuits,
  leaders,
  failedRuns,
  waitingRows,
}: TroubleFacts): ObservedTrouble[] =>
  circuits
    .filter(
      ({ scope, openedAt, probeAt, cause }) =>
        cause === 'out_of_credits' ||
        lasted(probeAt, now) < UNPROBED_MS ||
        leaders.some((one) => one.scope === scope) ||
        failedRuns.some(
          (run) =>
            run.scope === scope &&
            (run.failedFor === 'service_down' || run.failedFor === 'circuit_open') &&
            run.finishedAt >= openedAt,
        ),
    )
    .map(({ scope, openedAt, probeAt, reason, cause }) => ({
      code: CIRCUIT_TROUBLES[cause],
      subject: scope,
      since: openedAt,
      details: { reason: reason ?? undefined, waiting: waitingRows, until: probeAt.toISOString() },
    }))

function observeRateCauses(
  facts: TroubleFacts,
  { scope, status }: TroubleFacts['leaders'][number],
): ObservedTrouble[] {
  if (status === null) return []
  const common = { subject: scope, since: facts.now }
  // It explains calls that wait, so it says how long they do: an hour of another client's calls stops all of ours.
  const { reason: _reason, ...wait } = findWait(facts, status, Number.NEGATIVE_INFINITY) ?? {}
  return [
    ...(status.state === 'banned'
      ? [{ ...common, code: 'banned' as const, details: { waiting: facts.waitingRows } }]
      : []),
    ...(status.sharedKey ? [{ ...common, code: 'shared_key' as const, details: wait }] : []),
  ]
}

function observeWaits(
  facts: TroubleFacts,
  { scope, status }: TroubleFacts['leaders'][number],
  causes: Causes,
): ObservedTrouble[] {
  const from = causes.countsFrom('calls_waiting', { scope, sources: [] })
  const details = status === null ? null : findWait(facts, status, from)
  if (details === null) return []
  return [
    { code: 'calls_waiting', subject: scope, since: new Date(facts.now.getTime() - details.ms), details },
  ]
}

/** For how long no call was permitted, and why; null if that is usual. @param from when the wait began */
function findWait({ now, waitingRows }: TroubleFacts, status: RateStatus, from: number) {
  const { stallReason: reason, stalledForMs, nextWindowAt } = status
  const ms = Math.min(stalledForMs ?? 0, now.getTime() - from)
  if (reason === null || ms < longestUsualWaitMs(status)) return null
  const until = nextWindowAt === null ? undefined : toIso(nextWindowAt)
  return { ms, reason, waiting: waitingRows, ...(until !== undefined && { until }) }
}

const toIso = (ms: number): string | undefined => {
  const date = new Date(ms)
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString()
}

/** With a limit of 60 a minute, calls wait for the next window every minute. */
const longestUsualWaitMs = ({ windowMs }: RateStatus): number =>
  Math.min(MAX_WAIT_MS, Math.max(MIN_WAIT_MS, (windowMs ?? 0) * 1.25))

/** A budget below the backlog is a choice, and a backfill shows its progress: only single edits may not wait for it. */
function observeBudgets({ now, spentBudgets, changes }: TroubleFacts): ObservedTrouble[] {
  const midnight = new Date(now)
  midnight.setUTCHours(24, 0, 0, 0)
  return spentBudgets.flatMap(({ source, limit, isInCredits }) => {
    const own = changes.filter((one) => source === null || one.source === source)
    const waiting = own.reduce((sum, { edits }) => sum + edits, 0)
    if (waiting === 0) return []
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

function observeChanges(
  { now, changes, spentBudgets, hasDaemon }: TroubleFacts,
  causes: Causes,
): ObservedTrouble[] {
  // What waits for midnight is one trouble, not two.
  const isSpent = (source: string): boolean =>
    spentBudgets.some((one) => one.source === null || one.source === source)
  return changes.flatMap(({ source, count, oldestEditAt, oldestImportAt }) => {
    if (isSpent(source)) return []
    const from = causes.countsFrom('live_sync_behind', { scope: null, sources: [source] })
    const isLate = (at: Date | null, limitMs: number): at is Date =>
      at !== null && now.getTime() - Math.max(at.getTime(), from) > limitMs
    const late = [
      ...(isLate(oldestEditAt, BEHIND_MS) ? [oldestEditAt] : []),
      ...(isLate(oldestImportAt, IMPORT_BEHIND_MS) ? [oldestImportAt] : []),
    ].toSorted((a, b) => a.getTime() - b.getTime())
    const [since] = late
    if (since === undefined) return []
    const details = { ms: lasted(since, now), waiting: count, ...withoutDaemon(hasDaemon) }
    return [{ code: 'live_sync_behind', subject: source, since, details }]
  })
}

/** Without a daemon each schedule and each source waits for the same: the gravest and oldest speaks for all. */
const joinIdle = ({ hasDaemon }: TroubleFacts, waiting: readonly ObservedTrouble[]): ObservedTrouble[] =>
  hasDaemon
    ? [...waiting]
    : waiting
        .toSorted((a, b) => b.code.localeCompare(a.code) || a.since.getTime() - b.since.getTime())
        .slice(0, 1)

const withoutDaemon = (hasDaemon: boolean): TroubleDetails =>
  hasDaemon ? {} : { reason: 'no daemon is running' }

/** What is recorded as open: what other processes know, and what may come back within seconds. */
const listRecorded = ({ now, openTroubles }: TroubleFacts): Cause[] =>
  openTroubles
    .filter(({ code, seenAt }) => CAUSE_CODES.includes(code) && lasted(seenAt, now) < OWN_TROUBLE_TTL_MS)
    .map(({ code, subject }) => ({ code, subject, endedAt: null }))

function observeRuns({ failedRuns, now }: TroubleFacts, causes: Causes): ObservedTrouble[] {
  return failedRuns.flatMap(({ run, sources, scope, failedFor, reason, finishedAt }): ObservedTrouble[] => {
    if (failedFor !== null && lasted(finishedAt, now) < CAUSE_REPORT_MS) return []
    if (failedFor !== null && causes.explains('run_failed', { scope, sources }, finishedAt)) return []
    const subject = sources.length > 3 ? `${sources.length} sources` : sources.join(', ')
    const details = { run, sources, reason: reason ?? undefined }
    return [{ code: 'run_failed', subject, since: finishedAt, details }]
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
  causes: Causes,
): ObservedTrouble[] {
  const from = causes.countsFrom('schedule_late', ANY)
  return scheduledRuns.flatMap(({ schedule, at, state, isHeld, reason }) => {
    if (schedules !== null && !schedules.has(schedule)) return []
    const late = (since: Date, limitMs: number, why: string | null): ObservedTrouble[] => {
      const ms = lasted(since, now)
      if (Math.min(ms, now.getTime() - from) <= limitMs) return []
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
