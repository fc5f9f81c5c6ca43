import { Cron } from 'croner'
import type { ScheduleEntry } from '../config/config.ts'

// Pure but for the zones that Node knows: croner computes times, and starts nothing.

type When = Pick<ScheduleEntry, 'cron' | 'timezone'>

/**
 * The ticks of a schedule after a moment, in order. One at a time that the clock leaves out in spring comes at the end
 * of the gap; one at a time that comes twice in autumn comes once.
 */
export function ticksAfter(when: When, after: number, count: number): number[] {
  return cron(when)
    .nextRuns(count, new Date(after))
    .map((at) => at.getTime())
}

/** The latest tick at or before a moment. Null: there was none. */
export function latestTick(when: When, now: number): number | null {
  const [at] = cron(when).previousRuns(1, new Date(now + 1))
  return at?.getTime() ?? null
}

/** Names a schedule in the database: one that is changed is another. */
export const scheduleName = ({
  cron: text,
  timezone,
  sources,
}: When & Pick<ScheduleEntry, 'sources'>): string =>
  [text.split(/\s+/).join(' '), ...(timezone === null ? [] : [timezone]), sources.join(',')].join(' | ')

const cron = ({ cron: text, timezone }: When): Cron =>
  new Cron(text, { paused: true, mode: '5-part', ...(timezone !== null && { timezone }) })
