import type { Limiter, RateState } from '../../service/limiter.ts'

/**
 * A turn as the caller: the one process that calls the service, because the limit belongs to the key and not to a
 * process. The limiter is the turn's own; a new turn starts from what was last known.
 */
export interface Turn {
  /** The service and the key that are called: the runs of another are not served. */
  readonly scope: string
  readonly limiter: Limiter
  /** Aborted when the turn could not be kept: another process may call by now. */
  readonly lost: AbortSignal
  /** Gives the turn up, so that the next process need not wait. */
  end(): Promise<void>
}

/** @returns null while another process is the caller */
export type TakeTurn = () => Promise<Turn | null>

/** What the process that calls has told of the rate; null where it has told nothing. */
export type HearRate = () => Promise<RateState | null>
