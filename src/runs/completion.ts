/** What decides whether a run that has picked its rows is complete at one of its services. */
interface RunSnapshot {
  /** Rows of this run that wait at the service. */
  readonly ownWaiting: number
  /** Of these, rows whose lookup is in a job. */
  readonly awaitingDelivery: number
  /** Of these, answered rows that another transaction has locked. */
  readonly locked: number
  /** Rows of the same sources held by other running runs, as far as this run waits for them. */
  readonly others: number
  /** Of the run's own, rows whose next lookup its budget cannot pay. */
  readonly unpayable: number
  /** Of the run's own, rows whose lookup is retried too late to wait for. */
  readonly later: number
  /** The service has been down for too long to wait for it. */
  readonly isDown: boolean
  /** Time without progress, in milliseconds. */
  readonly idleMs: number
  /** How long to wait for deliveries (`--wait`), in milliseconds. */
  readonly waitMs: number
  /** How long to wait for locked rows, in milliseconds. */
  readonly lockedWaitMs: number
}

type Completion = 'continue' | 'done' | 'timed_out'

/** How long a run waits out an outage if it had a response before, or never had one. In milliseconds. */
const MAX_OUTAGE_MS = 15 * 60_000
const MAX_UNANSWERED_OUTAGE_MS = 60_000

/**
 * Whether an outage of the service has lasted too long to wait for. A quarter of an hour is little at the end of a
 * nightly run, but too long for a user at the terminal who mistyped an address. Pure.
 * @param lastedMs so far, counted from the start of the run at the earliest, because an older outage may be over, and from when no
 * other service works
 */
export const isOutageTooLong = (lastedMs: number, wasAnswered: boolean): boolean =>
  lastedMs > (wasAnswered ? MAX_OUTAGE_MS : MAX_UNANSWERED_OUTAGE_MS)

/**
 * Decides whether a service is done with a run that has picked its rows: no row waits, or it has waited long enough
 * for deliveries and locked rows. It stays while another running run holds rows of its sources, to take them over
 * should that run die. It waits neither for late retries nor for a long outage: `not_before` is stored, and the
 * next run or the daemon continues. Pure.
 */
export function decideCompletion(run: RunSnapshot): Completion {
  const { ownWaiting, awaitingDelivery, locked, others, unpayable, later, isDown, idleMs, waitMs } = run
  if (isDown && ownWaiting > 0) return 'done'
  const payable = ownWaiting - unpayable - later - locked
  if (locked > 0 && idleMs < Math.min(waitMs, run.lockedWaitMs)) return 'continue'
  if (payable <= 0 && others === 0) return 'done'
  const isWithinWait = idleMs < waitMs
  if (payable <= awaitingDelivery) return isWithinWait ? 'continue' : 'timed_out'
  return 'continue'
}

/** The full check reads all waiting rows, so it runs rarely and only without progress. */
export const FULL_CHECK_MS = 1_000
/** At most this share of the time is spent on reading all waiting rows: a million take seconds. */
const READING_SHARE = 1 / 20

/** When all waiting rows may be read again, after it took from `startedAt` to `endedAt`, in milliseconds. Pure. */
export const nextReadAt = (startedAt: number, endedAt: number): number =>
  startedAt + Math.max(FULL_CHECK_MS, (endedAt - startedAt) / READING_SHARE)
