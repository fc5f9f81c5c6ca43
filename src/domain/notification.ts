import { formatCount, formatMoney } from '../util/format.ts'
import { FAILED_ROW_STATES, type RowState } from './row.ts'
import type { FinishedRun, Trigger } from './run.ts'
import type { Money } from './spend.ts'
import {
  type Condition,
  type ConditionDetails,
  type ConditionKind,
  describeCondition,
  describeEnd,
  notifiedAfterMs,
  severityOf,
} from './condition.ts'

/**
 * What a target of `notify` can subscribe to:
 * - `error`: a condition that needs a person, failed runs and late schedules among them, and its end
 * - `warning`: the same of the other conditions
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
  readonly event: 'condition_began' | 'condition_ended' | 'run_completed' | 'run_without_matches'
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
  /** How long a condition lasted, or a run took. */
  readonly duration_ms: number | null
  readonly condition?: NotifiedCondition
  readonly run?: NotifiedRun
}

interface NotifiedCondition {
  readonly kind: ConditionKind
  readonly service: string | null
  /** The source, or several; of a late schedule, the schedule. */
  readonly source: string | null
  readonly since: string
  readonly ended_at: string | null
  readonly details: ConditionDetails
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

/** A condition as it is stored, with the targets that were notified of it. */
export interface NotableCondition extends Condition {
  readonly id: number
  readonly endedAt: Date | null
  /** `began KEY`, `ended KEY` of each target that has accepted it. */
  readonly acceptedBy: readonly string[]
  /** It has come back soon after an end that a target was notified of. */
  readonly isBack: boolean
}

/** What comes and goes is notified of once, unless it has come back to stay. Milliseconds. */
const RETURN_DELAY_MS = 5 * 60_000

/**
 * What a target is to be notified of about a condition; null: of nothing. What ended before its begin was accepted is reported to no one.
 * Pure.
 * @param now milliseconds since the epoch, by Postgres's clock
 */
export function findDueEvent(
  condition: NotableCondition,
  { key, on }: { readonly key: string; readonly on: readonly NotificationTopic[] },
  now: number,
): 'began' | 'ended' | null {
  const { since, endedAt, acceptedBy, isBack } = condition
  const isAccepted = acceptedBy.includes(`began ${key}`)
  if (endedAt !== null) return isAccepted && !acceptedBy.includes(`ended ${key}`) ? 'ended' : null
  const delayMs = isBack ? RETURN_DELAY_MS : notifiedAfterMs(condition)
  const isDue = on.includes(severityOf(condition)) && now - since.getTime() >= delayMs
  return isDue && !isAccepted ? 'began' : null
}

/** A condition that began, or, with `endedAt`, that is over. */
export function toConditionNotification(
  condition: Omit<NotableCondition, 'acceptedBy' | 'isBack'>,
  run: NotifiedRun | null,
  { environment, dashboardUrl }: NotificationOrigin,
  now: number,
): FillrateNotification {
  const { id, kind, service, source, since, endedAt, details } = condition
  const { title, meaning, mend } = describeCondition(condition, now)
  const isOver = endedAt !== null
  const duration = Math.max(0, (endedAt?.getTime() ?? now) - since.getTime())
  const event = isOver ? 'condition_ended' : 'condition_began'
  return {
    event_id: `${event}-${id}-${since.getTime()}`,
    event,
    at: (endedAt ?? since).toISOString(),
    environment,
    severity: isOver ? 'info' : severityOf(condition),
    title: isOver ? describeEnd(condition, duration) : title,
    meaning: isOver ? null : meaning,
    action: isOver ? null : mend,
    link: dashboardUrl === null ? null : run === null ? `${dashboardUrl}/` : `${dashboardUrl}/runs/${run.id}`,
    duration_ms: isOver ? duration : null,
    condition: {
      kind,
      service,
      source,
      since: since.toISOString(),
      ended_at: endedAt?.toISOString() ?? null,
      details,
    },
    ...(run !== null && { run }),
  }
}

/** The topic of a finished run; null for one that needs no notification, or whose condition has its own. */
export function toRunTopic({ status, rows }: FinishedRun, trigger: Trigger): NotificationTopic | null {
  if (trigger === 'follow' || (status !== 'completed' && status !== 'budget_reached')) return null
  return rows.enriched > 0 ? 'completed' : 'no_matches'
}

export function toRunNotification(
  run: NotifiedRun,
  { endedAt, durationMs }: { readonly endedAt: Date; readonly durationMs: number },
  { environment, dashboardUrl }: NotificationOrigin,
): FillrateNotification {
  const enriched = run.rows?.enriched ?? 0
  const event = enriched > 0 ? 'run_completed' : 'run_without_matches'
  return {
    event_id: `${event}-${run.id}-${endedAt.getTime()}`,
    event,
    at: endedAt.toISOString(),
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

/** The delay before the next attempt, in milliseconds. @param attempts so far, 1 or more */
export const notificationRetryMs = (attempts: number): number =>
  RETRY_MS[Math.min(Math.max(attempts, 1), RETRY_MS.length) - 1] ?? 0
