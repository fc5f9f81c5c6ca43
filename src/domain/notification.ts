import { formatCount, formatDuration, formatMoney } from '../util/format.ts'
import { FAILED_ROW_STATES, type RowState } from './row.ts'
import type { FinishedRun, Trigger } from './run.ts'
import type { Money } from './spend.ts'
import {
  describeTrouble,
  type Trouble,
  type TroubleCode,
  type TroubleDetails,
  troubleDurationMs,
} from './trouble.ts'

/**
 * What a target of `notify` can subscribe to:
 * - `error`: a trouble that needs a person, failed runs and late schedules among them, and its end
 * - `warning`: the same of the other troubles
 * - `completed`: a run, live sync apart, that enriched rows
 * - `no_matches`: a run that enriched none
 */
export const NOTIFICATION_TOPICS = ['error', 'warning', 'completed', 'no_matches'] as const
export type NotificationTopic = (typeof NOTIFICATION_TOPICS)[number]

/** The forms of its body: `FillrateNotification`, signed; `{ text }`, for Slack and compatible services. */
export const NOTIFICATION_FORMS = ['json', 'slack'] as const
export type NotificationForm = (typeof NOTIFICATION_FORMS)[number]

/** Only what needs a person: a target that reports every run is muted. */
export const DEFAULT_TOPICS: readonly NotificationTopic[] = ['error']

/** The body of a notification in its JSON form. Times are ISO 8601 in UTC. docs/notifications.md has each field. */
export interface FillrateNotification {
  /** The same in every attempt and for every target, so that a receiver can drop duplicates. */
  readonly event_id: string
  readonly event: 'trouble_began' | 'trouble_ended' | 'run_completed' | 'run_without_matches'
  readonly at: string
  /** FILLRATE_ENVIRONMENT. */
  readonly environment: string | null
  readonly severity: 'error' | 'warning' | 'info'
  /** What happened, in one sentence. */
  readonly title: string
  readonly meaning: string | null
  /** What to do. */
  readonly action: string | null
  /** The page of the dashboard. */
  readonly link: string | null
  /** How long a trouble lasted, or a run took. */
  readonly duration_ms: number | null
  readonly trouble?: NotifiedTrouble
  readonly run?: NotifiedRun
}

interface NotifiedTrouble {
  readonly code: TroubleCode
  /** Service and key, source, schedule or process; empty if there is only one. */
  readonly subject: string
  readonly since: string
  readonly ended_at: string | null
  readonly details: TroubleDetails
}

/** The run that a notification is about. */
export interface NotifiedRun {
  readonly id: number
  readonly trigger: Trigger
  readonly sources: readonly string[]
  readonly status: string
  readonly reason: string | null
  /** Rows by state, and how many were picked. Null: it died before it could report. */
  readonly rows: Readonly<Record<RowState | 'picked', number>> | null
  readonly lookups_requested: number | null
  /** What they cost; null without a price. */
  readonly cost: Money | null
  readonly cells_written: number | null
}

/** Where a notification comes from. */
export interface NotificationOrigin {
  readonly environment: string | null
  /** The address of the dashboard, without a trailing slash. */
  readonly dashboardUrl: string | null
}

/** These may end by themselves before anyone could look: an outage of 20 s notifies no one. */
const SHORT_LIVED: ReadonlySet<TroubleCode> = new Set([
  'service_down',
  'circuit_open',
  'shared_key',
  'calls_waiting',
  'live_sync_behind',
  'database_away',
])

/**
 * How long a trouble must last before it is reported, in milliseconds: a report within a minute. A restart of Postgres takes seconds.
 */
export const notificationDelayMs = (code: TroubleCode): number => {
  if (code === 'database_away') return 30_000
  return SHORT_LIVED.has(code) ? 60_000 : 0
}

/** A trouble that comes and goes is notified of once, unless it has come back to stay. Milliseconds. */
export const RETURN_DELAY_MS = 5 * 60_000

/** A trouble that began, or, with `endedAt`, that is over. */
export function toTroubleNotification(
  trouble: Trouble,
  run: NotifiedRun | null,
  { environment, dashboardUrl }: NotificationOrigin,
  { eventId, now }: { readonly eventId: string; readonly now: number },
): FillrateNotification {
  const { code, subject, severity, since, endedAt } = trouble
  const { title, meaning, action } = describeTrouble(trouble, now)
  const isOver = endedAt !== null
  const duration = troubleDurationMs(trouble, now)
  const end = describeEnd(trouble, duration)
  return {
    event_id: eventId,
    event: isOver ? 'trouble_ended' : 'trouble_began',
    at: (endedAt ?? since).toISOString(),
    environment,
    severity: isOver ? 'info' : severity,
    title: isOver ? end.title : title,
    meaning: isOver ? null : meaning,
    action: isOver ? null : action,
    link: dashboardUrl === null ? null : run === null ? `${dashboardUrl}/` : `${dashboardUrl}/runs/${run.id}`,
    duration_ms: isOver ? duration : null,
    trouble: {
      code,
      subject,
      since: since.toISOString(),
      ended_at: endedAt?.toISOString() ?? null,
      details: isOver ? end.details : trouble.details,
    },
    ...(run !== null && { run }),
  }
}

/** The begin of a trouble, with its details at the time of sending: the notification may have waited a minute, or for its target. */
export function withDetails(
  notice: FillrateNotification,
  details: TroubleDetails,
  origin: NotificationOrigin,
  now: number,
): FillrateNotification {
  const { event_id: eventId, trouble, run = null, severity } = notice
  if (trouble === undefined || severity === 'info') return notice
  const since = new Date(trouble.since)
  return toTroubleNotification({ ...trouble, severity, since, endedAt: null, details }, run, origin, {
    eventId,
    now,
  })
}

/** The topic of a finished run; null for one that needs no notification, or whose trouble has its own. */
export function toRunTopic({ status, rows }: FinishedRun, trigger: Trigger): NotificationTopic | null {
  if (trigger === 'follow' || (status !== 'completed' && status !== 'budget_reached')) return null
  return rows.enriched > 0 ? 'completed' : 'no_matches'
}

export function toRunNotification(
  run: NotifiedRun,
  durationMs: number,
  { environment, dashboardUrl }: NotificationOrigin,
  { eventId, now }: { readonly eventId: string; readonly now: number },
): FillrateNotification {
  const enriched = run.rows?.enriched ?? 0
  return {
    event_id: eventId,
    event: enriched > 0 ? 'run_completed' : 'run_without_matches',
    at: new Date(now).toISOString(),
    environment,
    severity: 'info',
    title: `Run ${run.id} (${run.trigger}, ${run.sources.join(', ')}) enriched ${formatCount(enriched)} of ${formatCount(run.rows?.picked ?? 0)} rows`,
    meaning: run.reason,
    action: null,
    link: dashboardUrl === null ? null : `${dashboardUrl}/runs/${run.id}`,
    duration_ms: durationMs,
    run,
  }
}

const ICONS = { error: ':x:', warning: ':warning:', info: ':white_check_mark:' } as const

/** A notification as text for Slack and services that read its form. */
export function toSlackText(notice: FillrateNotification): string {
  const { environment, severity, title, meaning, action, link, run } = notice
  const name = environment === null ? 'Fillrate' : `Fillrate (${environment})`
  const sentences = [meaning, run === undefined ? null : describeFailures(run), action]
    .filter((text) => text !== null)
    .map((text) => (/[.!?]$/.test(text) ? text : `${text}.`))
  const lines = [
    `${ICONS[severity]} *${escapeSlack(name)}*: ${escapeSlack(title)}`,
    ...(sentences.length > 0 ? [escapeSlack(sentences.join(' '))] : []),
    ...(link === null
      ? []
      : [`<${link}|${run === undefined ? 'Open the dashboard' : `Open run ${run.id}`}>`]),
  ]
  return lines.join('\n')
}

/** `12 rows failed, 3 write_rejected`; null if none did. */
function describeFailures({ rows, lookups_requested: lookups, cost }: NotifiedRun): string | null {
  if (rows === null) return null
  const failed = FAILED_ROW_STATES.filter((state) => rows[state] > 0).map(
    (state) => `${formatCount(rows[state])} ${state}`,
  )
  const work = `${formatCount(rows.picked)} rows picked, ${formatCount(rows.enriched)} enriched, ${formatCount(rows.waiting)} waiting`
  const calls =
    lookups === null
      ? []
      : [`${formatCount(lookups)} lookups${cost === null ? '' : ` for ${formatMoney(cost)}`}`]
  return [work, ...failed, ...calls].join(', ')
}

/** The three characters that Slack reads as markup. */
const escapeSlack = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

const RETRY_MS = [10_000, 30_000, 60_000, 5 * 60_000, 15 * 60_000, 30 * 60_000, 60 * 60_000]

/** The delay before the next attempt. @param attempts so far, 1 or more */
export const notificationRetryMs = (attempts: number): number =>
  RETRY_MS[Math.min(Math.max(attempts, 1), RETRY_MS.length) - 1] ?? 0

/** Figures from the time while it lasted: a notification of its end must not repeat them. */
const withoutFigures = ({ code, details }: Pick<Trouble, 'code' | 'details'>): TroubleDetails => {
  const { waiting: _waiting, ms: _ms, until: _until, reason, ...lasting } = details
  return code === 'calls_waiting' ? lasting : { ...lasting, ...(reason !== undefined && { reason }) }
}

/** A trouble that is over, in words and with the details that still hold. @param ms how long it lasted, in milliseconds */
export function describeEnd(
  trouble: Pick<Trouble, 'code' | 'subject' | 'details'>,
  ms: number,
): { readonly title: string; readonly details: TroubleDetails } {
  const details = withoutFigures(trouble)
  const { title } = describeTrouble({ ...trouble, details }, 0)
  return { title: `Over after ${formatDuration(ms)}: ${title}`, details }
}
