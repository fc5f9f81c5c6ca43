import type { RunProgress } from '../../runs/counters.ts'
import { formatCount, formatDuration, formatPerSecond, pluralize } from '../../util/text.ts'
import type { Log } from '../../util/log.ts'
import type { Output } from '../terminal.ts'
import { compact } from './layout.ts'
import { SHARED_KEY_NOTICE } from './report.ts'

/** A terminal is redrawn at most this often. */
const FRAME_MS = 100
/** Without a terminal, a line is written this often. */
const LINE_MS = 10_000

/** Shows the progress of a command: a live line on a terminal, elsewhere a line every 10 s. */
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
    this.#report(formatProgress(progress, this.#throughput.perSecond))
  }

  /**
   * Returns a function that shows how many of a number of items are done.
   * @param what the plural of what is counted, such as `writes`
   */
  countFrom(now: () => number, what: string): (done: number, all: number) => void {
    const startedAt = now()
    return (done, all) => {
      if (!this.#isDue(now() - startedAt)) return
      this.#report(`${formatCount(done)} of ${formatCount(all)} ${what}`)
    }
  }

  #report(text: string): void {
    if (this.#output.isLive) this.#output.live(text)
    else if (this.#log === null) this.#output.line(text)
    else this.#log.info({ event: 'progress' }, text)
  }

  /** Removes the live line. */
  end(): void {
    this.#output.live('')
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

/** How far a run is: the most important parts first, because a terminal cuts the line. */
export function formatProgress(progress: RunProgress, perSecond: number | null): string {
  const parts = [
    [`${formatRows(progress)} (${formatShare(progress)})`, ...formatTiming(progress, perSecond)],
    compact([formatNotice(progress)]),
    formatWork(progress),
  ]
  const text = parts.filter((part) => part.length > 0).map((part) => part.join(', '))
  return [formatDuration(progress.elapsedMs), ...text].join('; ')
}

/** Why the run is stalled, else that another client uses the key. */
function formatNotice({ stallReason, rate, services = [] }: RunProgress): string | null {
  const stalled = services.find(({ stallReason }) => stallReason !== null)
  if (stalled !== undefined) return `${stalled.service}: ${stalled.stallReason}`
  return stallReason ?? (rate?.sharedKey ? SHARED_KEY_NOTICE : null)
}

/** 100% only when all is done. */
function formatShare({ picked, finished, picking }: RunProgress): string {
  const whole = picked === 0 ? 0 : Math.floor((finished / picked) * 100)
  return `${picking ? Math.min(99, whole) : whole}%`
}

/** While rows are still being picked, their number grows. */
const formatRows = ({ picked, finished, picking }: RunProgress): string =>
  `${formatCount(finished)} of ${formatCount(picked)}${picking ? '+' : ''} rows`

function formatTiming(progress: RunProgress, perSecond: number | null): string[] {
  const leftMs = estimateLeft(progress, perSecond)
  return compact([
    perSecond !== null && perSecond !== 0 && formatPerSecond(perSecond),
    leftMs !== null && `${formatDuration(leftMs)} left`,
  ])
}

/**
 * The time left, in milliseconds: at the observed throughput, and no less than the rate limit needs for
 * the calls that are left. Null where it cannot be known, as with a window of unknown length. Pure.
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
