/** What is known of a key's limit. It outlives the process, so that the next run starts warm. */
export interface KnownLimit {
  readonly limit: number
  readonly windowMs: number | null
  /** Milliseconds since the epoch. */
  readonly observedAt: number
}

export interface RateState {
  /** The quota's named state; docs/rate.md draws them. */
  readonly state: string
  readonly limit: number | null
  /** Null while it is not known. */
  readonly windowMs: number | null
  /** Where it is not known, a window is no longer than this, in milliseconds; null where no bound is known either. */
  readonly windowAtMostMs: number | null
  /** Calls counted against the limit since the limiter started. */
  readonly used: number
  /** What the limit would have permitted while there was work; null while unlimited or unknown. */
  readonly permitted: number | null
  /** Used of permitted, 0 to 1. */
  readonly utilisation: number | null
  readonly windowUsed: number
  /** Milliseconds since the epoch. */
  readonly nextWindowAt: number | null
  /** The same from now, in milliseconds; null where it is over or not known. */
  readonly nextWindowInMs: number | null
  /** Why it waits, in words; null when it does not. */
  readonly waiting: string | null
  /** How long it has granted nothing although calls wait, in milliseconds; null where none waits. */
  readonly waitingForMs?: number | null
  /** 429s seen. */
  readonly throttled: number
  /** Another client seems to spend the key. */
  readonly foreign: boolean
  /** Another process calls, and has told this. */
  readonly isElsewhere?: boolean
}
