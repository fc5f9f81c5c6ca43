/** What a run looks at when it asks itself whether it is done. */
export interface RunSnapshot {
  readonly picking: boolean
  /** Rows of this run that wait. */
  readonly mine: number
  /** Of these, those whose lookup is with a job. */
  readonly forDelivery: number
  /** Of these, those that are answered, and can't be written as long as another transaction holds its lock. */
  readonly locked: number
  /** Rows of the same sources that other live runs hold, as far as this one waits for them. */
  readonly others: number
  /** Of these, those whose next lookup nobody will ask, because this run's budget would not pay it. */
  readonly unpayable: number
  /** Of the run's own, those whose lookup is tried again so late that it does not stay for them. */
  readonly later: number
  /** The service answers nothing, for so long that the run does not stay for it. */
  readonly isDown: boolean
  /** How long nothing has moved, in milliseconds. */
  readonly idleMs: number
  /** How long to wait for deliveries (`--wait`), in milliseconds. */
  readonly waitMs: number
  /** How long to wait for locked rows, in milliseconds. */
  readonly leftWaitMs: number
}

export type Completion = 'continue' | 'done' | 'timed_out'

/** A run that was answered before stays for an outage of so long; one that never was does not. In milliseconds. */
const MAX_OUTAGE_MS = 15 * 60_000
const MAX_UNANSWERED_OUTAGE_MS = 60_000

/**
 * Whether an outage of the service has lasted too long for a run to stay. At the end of a nightly run a quarter of an
 * hour is nothing; whoever has just given a wrong address waits at the terminal. Pure.
 * @param lastedMs so far, and not before the run began: what was down may be up again
 */
export const isOutageTooLong = (lastedMs: number, wasAnswered: boolean): boolean =>
  lastedMs > (wasAnswered ? MAX_OUTAGE_MS : MAX_UNANSWERED_OUTAGE_MS)

/**
 * Whether a run is done. It ends when nothing of its rows waits, or when only deliveries are missing or rows are locked
 * and it has waited for them long enough. It also stays while another live run holds rows of its sources: should that
 * one die, its rows are taken over. It does not stay for lookups that are tried again much later, nor for a service that
 * is down for long: `not_before` is stored, and the next run or the daemon goes on with them. Pure.
 */
export function decideCompletion(situation: RunSnapshot): Completion {
  const { picking, mine, forDelivery, locked, others, unpayable, later, isDown, idleMs, waitMs } = situation
  if (picking) return 'continue'
  if (isDown && mine > 0) return 'done'
  const payable = mine - unpayable - later - locked
  if (locked > 0 && idleMs < Math.min(waitMs, situation.leftWaitMs)) return 'continue'
  if (payable <= 0 && others === 0) return 'done'
  const patient = idleMs < waitMs
  if (payable <= forDelivery) return patient ? 'continue' : 'timed_out'
  return 'continue'
}
