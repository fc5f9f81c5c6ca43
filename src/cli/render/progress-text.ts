import type { RunProgress } from '../../runs/counters.ts'
import type { RateStatus } from '../../domain/rate-status.ts'
import { bar } from './bar.ts'
import { limitText } from './limit.ts'
import {
  formatCount,
  pluralize,
  formatDuration,
  formatPercent,
  formatPerSecond as speed,
} from '../../util/format.ts'
import type { Paint } from './paint.ts'
import { FOREIGN } from './rate-told.ts'
import { cut, width } from './text.ts'

export interface Frame {
  readonly columns: number
  readonly paint: Paint
}

const NARROWEST_BAR = 8
const GAUGE = 10

/**
 * The live block, always of the same height and with a bar of the same width, so that it does not jump:
 *
 *     ███████████░░░░░░   62%  3,104 of 5,000 rows  48/s  39 s left
 *     1,204 asked  300 in jobs  3 jobs out  2,911 cells written
 *     limit 200 calls in 2 s  ███████░░░ 143 in this window  98.4% used  next in 1.2 s
 *     waits for the next window
 *
 * What matters least gives way where the terminal is narrow.
 */
export function progressBlock(progress: RunProgress, perSecond: number | null, frame: Frame): string[] {
  const { paint } = frame
  const edge = frame.columns - 2
  const columns = Math.floor(frame.columns * 0.28)
  const parts = [percentOf(progress), rowsOf(progress), ...timing(progress, perSecond)]
  const notice = noticeOf(progress)
  return [
    columns < NARROWEST_BAR
      ? fitting(parts, edge)
      : `${bar(shareOf(progress), columns, paint)}  ${fitting(parts, edge - columns - 2)}`,
    fitting(work(progress), edge),
    limitLine(progress.rate, edge, paint),
    notice === null ? '' : paint('warn', notice),
  ].map((line) => ` ${line}`.trimEnd())
}

/** The same as one line of text, for a log. */
export function progressLine(progress: RunProgress, perSecond: number | null): string {
  const { rate } = progress
  const notice = noticeOf(progress)
  const parts = [
    [`${rowsOf(progress)} (${percentOf(progress).trim()})`, ...timing(progress, perSecond)],
    work(progress),
    [
      ...(rate?.limit == null
        ? []
        : [limitText(rate.limit, rate.windowMs, rate.windowAtMostMs), ...used(rate)]),
      ...(notice === null ? [] : [notice]),
    ],
  ]
  const text = parts.filter((part) => part.length > 0).map((part) => part.join(', '))
  return [formatDuration(progress.elapsedMs), ...text].join('; ')
}

/** Why it waits, or else that somebody else spends the key. */
const noticeOf = ({ stallReason, rate }: RunProgress): string | null =>
  stallReason ?? (rate?.sharedKey ? FOREIGN : null)

const shareOf = ({ picked, finished }: RunProgress): number => (picked === 0 ? 0 : finished / picked)

/** Never 100% before all is done. */
function percentOf(progress: RunProgress): string {
  const whole = Math.floor(shareOf(progress) * 100)
  return `${progress.picking ? Math.min(99, whole) : whole}%`.padStart(4)
}

/** While rows are still being picked their number grows. */
const rowsOf = ({ picked, finished, picking }: RunProgress): string =>
  `${formatCount(finished).padStart(picking ? 0 : formatCount(picked).length)} of ${formatCount(picked)}${picking ? '+' : ''} rows`

function timing({ picked, finished, picking }: RunProgress, perSecond: number | null): string[] {
  if (perSecond === null || perSecond === 0) return []
  const left =
    picking || finished >= picked
      ? []
      : [`${formatDuration(Math.ceil((picked - finished) / perSecond) * 1_000)} left`]
  return [speed(perSecond), ...left]
}

function work({ requested, submitted, jobsWaiting, written }: RunProgress): string[] {
  return [
    ...(requested > 0 ? [`${formatCount(requested)} asked`] : []),
    ...(submitted > 0 ? [`${formatCount(submitted)} in jobs`] : []),
    ...(jobsWaiting > 0 ? [`${pluralize(jobsWaiting, 'job')} out`] : []),
    `${formatCount(written)} cells written`,
  ]
}

function limitLine(rate: RateStatus | null, edge: number, paint: Paint): string {
  if (rate === null || rate.limit === null) return paint('quiet', 'limit not known yet')
  const { limit, windowMs, windowAtMostMs, windowUsed } = rate
  const gauge = bar(limit === 0 ? 0 : windowUsed / limit, GAUGE, paint)
  const [first, ...more] = used(rate)
  return fitting([`limit ${limitText(limit, windowMs, windowAtMostMs)}`, `${gauge} ${first}`, ...more], edge)
}

function used(rate: RateStatus): [string, ...string[]] {
  return [
    `${formatCount(rate.windowUsed)} in this window`,
    ...(rate.utilisation === null ? [] : [`${formatPercent(rate.utilisation)} used`]),
    ...(rate.nextWindowInMs === null ? [] : [`next in ${formatDuration(rate.nextWindowInMs)}`]),
    ...(rate.throttled > 0 ? [`${formatCount(rate.throttled)} refused`] : []),
  ]
}

/** As many of the parts, from the first, as there is room for. */
function fitting(parts: readonly string[], columns: number): string {
  let text = cut(parts[0] ?? '', columns)
  for (const part of parts.slice(1)) {
    if (width(text) + 2 + width(part) > columns) break
    text += `  ${part}`
  }
  return text
}
