import type { ExhaustedFor, KnownLimit, PreviousLeader } from '../../domain/rate-status.ts'
import type { Call } from './call-ledger.ts'
import type { DocumentedOptions } from './documented-limits.ts'
import type { CallPosition } from './endpoint-evidence.ts'
import type { RateLimitModel } from './model.ts'

export interface ModelOptions {
  readonly warm?: KnownLimit | null
  /** How long the previous leader may have exhausted limits. */
  readonly exhaustedFor?: ExhaustedFor
  readonly previous?: PreviousLeader | undefined
  /**
   * Persists how long limits may be exhausted, in place of what was persisted before. Without it, the next leader does not
   * learn that a limit is exhausted.
   */
  readonly persistExhaustion?: ((exhaustedFor: ExhaustedFor) => Promise<void>) | null
  /** Limits in addition to those that headers state; the stricter one holds. Default: none. */
  readonly documented?: DocumentedOptions
  /** More may be granted now. */
  readonly onPersisted: () => void
  readonly now: () => number
}

/** A call in flight, as each limit counts it that it may be counted against. */
export interface CountedCall {
  readonly position: CallPosition
  readonly parts: { readonly model: RateLimitModel; readonly call: Call }[]
}
