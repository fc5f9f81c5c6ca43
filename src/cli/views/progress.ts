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
  #shownAtMs: number

  /** @param log for the lines of what is no terminal; null: plain lines */
  constructor(output: Output, log: Pick<Log, 'info'> | null = null) {
    this.#output = output
    this.#log = output.isTTY ? null : log
    this.#shownAtMs = output.isLive ? Number.NEGATIVE_INFINITY : 0
  }

  /** Shows the progress of a run. */
  showRun(progress: RunProgress): void {
    if (this.#isDue(progress.elapsedMs)) this.#report(formatProgress(progress))
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

/** How far a run is: the most important parts first, because a terminal cuts the line. */
export function formatProgress(progress: RunProgress): string {
  return compact([
    formatDuration(progress.elapsedMs),
    [
      `${formatRows(progress)} (${formatShare(progress)})`,
      formatSpeed(progress),
      ...formatLeft(progress),
    ].join(', '),
    formatNotice(progress),
    formatWork(progress),
  ]).join('; ')
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

/** On average since the run began. */
const formatSpeed = ({ finished, elapsedMs }: RunProgress): string =>
  formatPerSecond(finished / Math.max(1, elapsedMs / 1_000))

/** The time left at this speed, once it is known how many rows there are. */
const formatLeft = ({ picked, finished, picking, elapsedMs }: RunProgress): string[] =>
  picking || finished === 0 || finished === picked
    ? []
    : [`${formatDuration((elapsedMs / finished) * (picked - finished))} left`]

const formatWork = ({ requested, submitted, jobsWaiting, written }: RunProgress): string =>
  compact([
    requested > 0 && `${formatCount(requested)} looked up`,
    submitted > 0 && `${formatCount(submitted)} in jobs`,
    jobsWaiting > 0 && `${pluralize(jobsWaiting, 'job')} out`,
    `${formatCount(written)} cells written`,
  ]).join(', ')
