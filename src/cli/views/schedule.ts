import type { ScheduleEntry } from '../../config/config.ts'
import { nextTimes, timeZoneOf } from '../../config/cron.ts'
import type { Output } from '../terminal.ts'
import { compact } from './layout.ts'
import { relativeTime } from '../../util/text.ts'

/** The next time of each entry of the schedule. */
export function renderSchedule(
  schedule: readonly ScheduleEntry[],
  now: number,
  output: Pick<Output, 'paint'>,
): string[] {
  if (schedule.length === 0) return ['No `schedule` in the configuration: there are no scheduled runs.']
  return schedule.flatMap((entry) => {
    const { cron, sources } = entry
    const details = compact([
      timeZoneOf(entry),
      `runs ${sources.join(', ')}`,
      entry.budget !== null && `budget ${entry.budget}`,
    ])
    return [
      `${output.paint('heading', cron)}  ${output.paint('quiet', details.join(', '))}`,
      ...nextTimes(entry, now, 1).map(
        (at) => `  ${formatLocalTime(at, entry)}  ${output.paint('quiet', relativeTime(new Date(at), now))}`,
      ),
    ]
  })
}

/** `2026-03-29 03:00:00 CEST`, in the time zone of the schedule. */
const formatLocalTime = (at: number, entry: ScheduleEntry): string =>
  new Intl.DateTimeFormat('sv-SE', {
    timeZone: timeZoneOf(entry),
    dateStyle: 'short',
    timeStyle: 'long',
  }).format(at)
