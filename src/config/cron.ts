import { Cron } from 'croner'
import type { ScheduleEntry } from './config.ts'

// Pure, except for the time zones that Node knows: croner computes times and starts nothing.

type CronSpec = Pick<ScheduleEntry, 'cron' | 'timezone'>

/** The times of a schedule after a moment, in order. */
export function nextTimes(when: CronSpec, after: number, count: number): number[] {
  return parseCron(when)
    .nextRuns(count, new Date(after))
    .map((at) => at.getTime())
}

/** The latest time at or before a moment. Null if there is none. */
export function previousTime(when: CronSpec, now: number): number | null {
  const [at] = parseCron(when).previousRuns(1, new Date(now + 1))
  return at?.getTime() ?? null
}

/** When each schedule was due last, by its name; null: never. */
export const listDueTimes = (
  schedule: readonly ScheduleEntry[],
  now: number,
): ReadonlyMap<string, number | null> =>
  new Map(schedule.map((entry) => [scheduleName(entry), previousTime(entry, now)]))

/** Identifies a schedule in the database; a changed entry has another name. */
export const scheduleName = ({
  cron: text,
  timezone,
  sources,
}: CronSpec & Pick<ScheduleEntry, 'sources'>): string =>
  [text.split(/\s+/).join(' '), ...(timezone === null ? [] : [timezone]), sources.join(',')].join(' | ')

/**
 * Times that daylight saving skips run when the gap ends, times that occur twice run once. A schedule with `*` or a step
 * in its minute or hour follows the clock instead. Without the rule, a list such as `30 2,3` would, too.
 */
const parseCron = ({ cron: text, timezone }: CronSpec): Cron =>
  new Cron(text, {
    paused: true,
    mode: '5-part',
    fixedTimeRule: 'no-wildcard',
    ...(timezone !== null && { timezone }),
  })

/** The time zone of an entry: its own, or that of this machine. */
const timeZoneOf = ({ timezone }: Pick<ScheduleEntry, 'timezone'>): string =>
  timezone ?? new Intl.DateTimeFormat().resolvedOptions().timeZone

/** The entries of a schedule with their next time, as in JSON. */
export const listNextRuns = (schedule: readonly ScheduleEntry[], now: number) =>
  schedule.map((entry) => ({
    cron: entry.cron,
    timezone: timeZoneOf(entry),
    sources: entry.sources,
    budget: entry.budget,
    next: nextTimes(entry, now, 1).map((at) => new Date(at).toISOString()),
  }))
