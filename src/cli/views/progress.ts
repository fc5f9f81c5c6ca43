import type { RunProgress } from '../../runs/counters.ts'
import { formatLimit, type RateStatus } from '../../domain/rate-status.ts'
import { formatCount, formatDuration, formatPercent, formatPerSecond, pluralize } from '../../util/format.ts'
import type { Log } from '../../util/log.ts'
import { padText, textWidth, truncate, type Output, type Paint } from '../terminal.ts'
import { compact, renderBar } from './layout.ts'
import { SHARED_KEY_NOTICE } from './rate-status.ts'

/** A terminal is redrawn at most this often. */
const FRAME_MS = 100
/** Without a terminal, a line is written this often. */
const LINE_MS = 10_000

/**
 * Shows the progress of a command: live lines on a terminal, elsewhere a line every 10 s.
 */
export class ProgressView {
  readonly #output: Output
  readonly #log: Pick<Log, 'info'> | null
  readonly #throughput = new Throughput()
  #shownAtMs: number

  /** @param log for the lines of what is no terminal; null: plain lines */
  constructor(output: Output, log: Pick<Log, 'info'> | null = null) {
    this.#output = output
    this.#log = output.isTTY ? null : log
    this.#shownAtMs = output.isLive ? Number.NEGATIVE_INFINITY : 0
  }

  /** Shows the progress of a run. */
  showRun(progress: RunProgress): void {
    this.#throughput.add(progress.elapsedMs, progress.finished)
    if (!this.#isDue(progress.elapsedMs)) return
    const { paint, columns, isLive } = this.#output
    const perSecond = this.#throughput.perSecond
    if (columns === null || !isLive) this.#report(formatProgressLine(progress, perSecond))
    else this.#output.live(renderProgress(progress, perSecond, { columns, paint }))
  }

  /**
   * Returns a function that shows how many of a number of items are done.
   * @param what the plural of what is counted, such as `writes`
   */
  countFrom(now: () => number, what: string): (done: number, all: number) => void {
    const startedAt = now()
    return (done, all) => {
      if (!this.#isDue(now() - startedAt)) return
      const text = `${formatCount(done)} of ${formatCount(all)} ${what}`
      const { isLive, paint } = this.#output
      if (isLive)
        this.#output.live([` ${renderBar(all === 0 ? 0 : done / all, COUNT_BAR_COLUMNS, paint)}  ${text}`])
      else this.#report(text)
    }
  }

  #report(text: string): void {
    if (this.#log === null) this.#output.line(text)
    else this.#log.info({ event: 'progress' }, text)
  }

  /** Removes the live lines. */
  end(): void {
    this.#output.live([])
  }

  #isDue(elapsedMs: number): boolean {
    if (elapsedMs - this.#shownAtMs < (this.#output.isLive ? FRAME_MS : LINE_MS)) return false
    this.#shownAtMs = elapsedMs
    return true
  }
}

const THROUGHPUT_WINDOW_MS = 15_000
/** Over a shorter time, a rate is a guess. */
const MIN_THROUGHPUT_MS = 2_000

/** How fast a number grows, over the last 15 s. */
export class Throughput {
  #samples: { readonly at: number; readonly value: number }[] = []

  add(at: number, value: number): void {
    this.#samples.push({ at, value })
    // One sample older than the window is kept, so that the samples cover the whole window.
    const stale = this.#samples.findLastIndex((sample) => sample.at < at - THROUGHPUT_WINDOW_MS)
    if (stale > 0) this.#samples = this.#samples.slice(stale)
  }

  /** Null in the first 2 s. */
  get perSecond(): number | null {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)]
    if (first === undefined || last === undefined || last.at - first.at < MIN_THROUGHPUT_MS) return null
    return Math.max(0, (last.value - first.value) / ((last.at - first.at) / 1_000))
  }
}

const COUNT_BAR_COLUMNS = 24
const MIN_BAR_COLUMNS = 8
const GAUGE_COLUMNS = 10

/**
 * The live lines of a run. Their number and the width of the bar are constant, so that nothing jumps:
 *
 *     ███████████░░░░░░   62%  3,104 of 5,000 rows  48/s  39 s left
 *     1,204 looked up  300 in jobs  3 jobs out  2,911 cells written
 *     limit 200 calls in 2 s  ███████░░░ 143 in this window  98.4% used  resets in 1.2 s
 *     waiting for the next window
 *
 * On a narrow terminal the least important parts are left out.
 */
export function renderProgress(
  progress: RunProgress,
  perSecond: number | null,
  { columns, paint }: { readonly columns: number; readonly paint: Paint },
): string[] {
  const room = columns - 2
  const barColumns = Math.floor(columns * 0.28)
  const parts = [formatShare(progress), formatRows(progress), ...formatTiming(progress, perSecond)]
  const notice = formatNotice(progress)
  return [
    barColumns < MIN_BAR_COLUMNS
      ? joinFitting(parts, room)
      : `${renderBar(shareOf(progress), barColumns, paint)}  ${joinFitting(parts, room - barColumns - 2)}`,
    joinFitting(formatWork(progress), room),
    ...(progress.services === undefined
      ? [renderLimit(progress.rate, room, paint)]
      : renderServices(progress.services, room, paint)),
    notice === null ? '' : paint('warn', notice),
  ].map((line) => ` ${line}`.trimEnd())
}

/** The same as one line of text, for a log. */
export function formatProgressLine(progress: RunProgress, perSecond: number | null): string {
  const { rate } = progress
  const notice = formatNotice(progress)
  const limit =
    rate?.limit == null
      ? []
      : [formatLimit(rate.limit, rate.windowMs, rate.windowAtMostMs), ...formatUse(rate)]
  const parts = [
    [`${formatRows(progress)} (${formatShare(progress).trim()})`, ...formatTiming(progress, perSecond)],
    formatWork(progress),
    compact([...limit, notice]),
  ]
  const text = parts.filter((part) => part.length > 0).map((part) => part.join(', '))
  return [formatDuration(progress.elapsedMs), ...text].join('; ')
}

/** Why the run is stalled, else that another client uses the key. */
function formatNotice({ stallReason, rate, services = [] }: RunProgress): string | null {
  const stalled = services.find((one) => one.stallReason !== null)
  if (stalled !== undefined) return `${stalled.service}: ${stalled.stallReason}`
  return stallReason ?? (rate?.sharedKey ? SHARED_KEY_NOTICE : null)
}

/** A line for each of several services: what it was requested with, and its limit. */
function renderServices(
  services: NonNullable<RunProgress['services']>,
  room: number,
  paint: Paint,
): string[] {
  const columns = Math.max(...services.map(({ service }) => textWidth(service)))
  return services.map(({ service, requested, submitted, rate }) => {
    const name = padText(service, columns)
    const count = `${formatCount(requested + submitted)} looked up`
    return `${name}  ${padText(count, 18)}  ${renderLimit(rate, room - columns - 22, paint)}`
  })
}

const shareOf = ({ picked, finished }: RunProgress): number => (picked === 0 ? 0 : finished / picked)

/** 100% only when all is done. */
function formatShare(progress: RunProgress): string {
  const whole = Math.floor(shareOf(progress) * 100)
  return `${progress.picking ? Math.min(99, whole) : whole}%`.padStart(4)
}

/** While rows are still being picked, their number grows. */
const formatRows = ({ picked, finished, picking }: RunProgress): string =>
  `${formatCount(finished).padStart(picking ? 0 : formatCount(picked).length)} of ${formatCount(picked)}${picking ? '+' : ''} rows`

function formatTiming(progress: RunProgress, perSecond: number | null): string[] {
  const leftMs = estimateLeft(progress, perSecond)
  return compact([
    perSecond !== null && perSecond !== 0 && formatPerSecond(perSecond),
    leftMs !== null && `${formatDuration(leftMs)} left`,
  ])
}

/**
 * The time left, in milliseconds: at the observed throughput, and no less than the rate limit needs for the calls that are
 * left. Null where it cannot be known, as with a window of unknown length. Pure.
 */
export function estimateLeft(progress: RunProgress, perSecond: number | null): number | null {
  const { picked, finished, requested, submitted, picking, rate } = progress
  if (picking || finished >= picked) return null
  const byThroughput =
    perSecond === null || perSecond === 0 ? null : Math.ceil((picked - finished) / perSecond) * 1_000
  // Jobs look up many rows in one call.
  if (rate === null || rate.limit === null || rate.limit === 0 || submitted > 0) return byThroughput
  const calls = picked - Math.max(finished, Math.min(requested, picked))
  const later = calls - Math.max(0, rate.limit - rate.windowUsed)
  if (later <= 0) return byThroughput
  const { nextWindowInMs, windowMs, limit } = rate
  const windows = Math.ceil(later / limit)
  if (nextWindowInMs === null || (windowMs === null && windows > 1)) return null
  const byLimit = Math.ceil((nextWindowInMs + (windows - 1) * (windowMs ?? 0)) / 1_000) * 1_000
  // The throughput of a pause until the next window says nothing about the time after it.
  const isPausing = rate.windowUsed >= limit || rate.stallReason !== null
  return isPausing || byThroughput === null ? byLimit : Math.max(byLimit, byThroughput)
}

function formatWork({ requested, submitted, jobsWaiting, written }: RunProgress): string[] {
  return compact([
    requested > 0 && `${formatCount(requested)} looked up`,
    submitted > 0 && `${formatCount(submitted)} in jobs`,
    jobsWaiting > 0 && `${pluralize(jobsWaiting, 'job')} out`,
    `${formatCount(written)} cells written`,
  ])
}

function renderLimit(rate: RateStatus | null, room: number, paint: Paint): string {
  if (rate === null || rate.limit === null) return paint('quiet', 'rate limit unknown')
  const { limit, windowMs, windowAtMostMs, windowUsed } = rate
  const gauge = renderBar(limit === 0 ? 0 : windowUsed / limit, GAUGE_COLUMNS, paint)
  const [first, ...more] = formatUse(rate)
  return joinFitting(
    [`limit ${formatLimit(limit, windowMs, windowAtMostMs)}`, `${gauge} ${first}`, ...more],
    room,
  )
}

function formatUse(rate: RateStatus): [string, ...string[]] {
  return [
    `${formatCount(rate.windowUsed)} in this window`,
    ...(rate.utilisation === null ? [] : [`${formatPercent(rate.utilisation)} used`]),
    ...(rate.nextWindowInMs === null ? [] : [`resets in ${formatDuration(rate.nextWindowInMs)}`]),
    ...(rate.throttled > 0 ? [`${formatCount(rate.throttled)} throttled`] : []),
  ]
}

/** As many of the parts, from the first, as fit. */
function joinFitting(parts: readonly string[], columns: number): string {
  let text = truncate(parts[0] ?? '', columns)
  for (const part of parts.slice(1)) {
    if (textWidth(text) + 2 + textWidth(part) > columns) break
    text += `  ${part}`
  }
  return text
}
