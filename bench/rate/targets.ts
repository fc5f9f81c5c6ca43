/** What a case must reach, as shares of the limit; null if there is no target. */
export interface RateTarget {
  readonly steady: number | null
  readonly whole: number | null
  /** 429s as a share of calls. */
  readonly rejected: number
  /** 429s in any ten seconds; omitted if there is no target. */
  readonly inTenSeconds?: number
}

/** The target for fixed windows of this length. */
export function steadyTarget(limit: number, windowMs: number): number | null {
  if (windowMs >= 10_000) return 0.99
  if (windowMs >= 2000) return 0.97
  if (windowMs >= 1000) return limit >= 50 ? 0.94 : 0.9
  return null
}

/** For sliding windows and buckets. */
export const rollingTarget: RateTarget = { steady: 0.9, whole: null, rejected: 0 }

/** Beside another client. */
export const sharedKeyTarget: RateTarget = { steady: null, whole: null, rejected: 0.01, inTenSeconds: 2 }

/** A ban of five minutes, detected with pauses of 30 s to 4 min. */
export const banTarget: RateTarget = { steady: null, whole: 0.75, rejected: 0.01 }

/** A limit that is cut within a window: calls in flight by then may be refused, once. */
export const decreaseTarget: RateTarget = { steady: null, whole: null, rejected: 0.05 }

/** For cases without a figure of their own. */
export const noTarget: RateTarget = { steady: null, whole: null, rejected: 0 }

export interface Measured {
  readonly whole: number
  readonly steady: number
  readonly calls: number
  readonly rejected: number
  /** The most 429s in any ten seconds, if that was measured. */
  readonly inTenSeconds?: number
}

/** The table shows a tenth of a percent: less than half of that is not missed. */
const TOLERANCE = 0.0005

export function isMet(target: RateTarget, measured: Measured): boolean {
  return (
    (target.steady === null || measured.steady >= target.steady - TOLERANCE) &&
    (target.whole === null || measured.whole >= target.whole - TOLERANCE) &&
    measured.rejected <= target.rejected * measured.calls &&
    (measured.inTenSeconds ?? 0) <= (target.inTenSeconds ?? Number.POSITIVE_INFINITY)
  )
}
