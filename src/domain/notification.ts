import type { FillrateNotification } from './report/notification.ts'
import {
  type Condition,
  type ConditionSeverity,
  describeCondition,
  describeEnd,
  notifiedAfterMs,
  severityOf,
} from './condition.ts'

/** The forms of its body: `FillrateNotification`, signed; `{ text }`, for Slack and compatible services. */
export const NOTIFICATION_FORMS = ['json', 'slack'] as const
export type NotificationForm = (typeof NOTIFICATION_FORMS)[number]

/** Only what needs a person: a target that reports everything is muted. */
export const DEFAULT_TOPICS: readonly ConditionSeverity[] = ['error']

/** A condition as it is stored, with the targets that were notified of it. */
export interface NotableCondition extends Condition {
  readonly id: number
  readonly endedAt: Date | null
  /** `began KEY`, `ended KEY` of each target that has accepted it. */
  readonly acceptedBy: readonly string[]
}

/**
 * What a target is to be notified of about a condition; null: of nothing. What ended before its begin was accepted is reported to no one.
 * Pure.
 * @param now milliseconds since the epoch, by Postgres's clock
 */
export function findDueEvent(
  condition: NotableCondition,
  { key, on }: { readonly key: string; readonly on: readonly ConditionSeverity[] },
  now: number,
): 'began' | 'ended' | null {
  const { since, endedAt, acceptedBy } = condition
  const isAccepted = acceptedBy.includes(`began ${key}`)
  if (endedAt !== null) return isAccepted && !acceptedBy.includes(`ended ${key}`) ? 'ended' : null
  const isDue = on.includes(severityOf(condition)) && now - since.getTime() >= notifiedAfterMs(condition)
  return isDue && !isAccepted ? 'began' : null
}

/**
 * A condition that began, or, with `endedAt`, that is over.
 * @param dashboardUrl without a trailing slash
 */
export function toConditionNotification(
  condition: Omit<NotableCondition, 'acceptedBy'>,
  dashboardUrl: string | null,
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
    severity: isOver ? 'info' : severityOf(condition),
    title: isOver ? describeEnd(condition, duration) : title,
    meaning: isOver ? null : meaning,
    action: isOver ? null : mend,
    link:
      dashboardUrl === null
        ? null
        : `${dashboardUrl}/${details.run === undefined ? '' : `runs/${details.run}`}`,
    duration_ms: isOver ? duration : null,
    condition: {
      kind,
      service,
      source,
      since: since.toISOString(),
      ended_at: endedAt?.toISOString() ?? null,
      details: { ...details },
    },
  }
}

const ICONS = { error: ':x:', warning: ':warning:', info: ':white_check_mark:' } as const

/** A notification as text for Slack and services that read its form. */
export function toSlackText({ severity, title, meaning, action, link }: FillrateNotification): string {
  return [
    `${ICONS[severity]} *Fillrate*: ${escapeSlack(title)}`,
    ...(meaning === null || action === null ? [] : [escapeSlack(`${meaning} ${action}`)]),
    ...(link === null ? [] : [`<${link}|Open the dashboard>`]),
  ].join('\n')
}

/** The three characters that Slack reads as markup. */
const escapeSlack = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

const RETRY_MS = [10_000, 30_000, 60_000, 5 * 60_000, 15 * 60_000, 30 * 60_000, 60 * 60_000]

/** The delay before the next attempt, in milliseconds. @param attempts so far, 1 or more */
export const notificationRetryMs = (attempts: number): number =>
  RETRY_MS[Math.min(Math.max(attempts, 1), RETRY_MS.length) - 1] ?? 0
