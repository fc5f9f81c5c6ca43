/** What a case must reach, as shares of the quota; null where nothing was promised. */
export interface Promised {
  readonly steady: number | null
  readonly whole: number | null
  /** 429s as a share of calls. */
  readonly refused: number
  /** 429s in any ten seconds; left out where nothing was promised. */
  readonly inTenSeconds?: number
}

/** DESIGN section 8's figure for fixed windows of this length. */
export function steadyOf(limit: number, windowMs: number): number | null {
  if (windowMs >= 10_000) return 0.99
  if (windowMs >= 2000) return 0.97
  if (windowMs >= 1000) return limit >= 50 ? 0.94 : 0.9
  return null
}

/** For sliding windows and buckets. */
export const evenly: Promised = { steady: 0.9, whole: null, refused: 0 }

/** Beside another client. */
export const shared: Promised = { steady: null, whole: null, refused: 0.01, inTenSeconds: 2 }

/** A ban of five minutes, found out with pauses of 30 s to 4 min. */
export const banned: Promised = { steady: null, whole: 0.75, refused: 0.01 }

/** Where the limit is cut within a window: what was on the wire by then, once. */
export const onTheWire: Promised = { steady: null, whole: null, refused: 0.05 }

/** For what has no figure of its own. */
export const unpromised: Promised = { steady: null, whole: null, refused: 0 }

export interface Measured {
  readonly whole: number
  readonly steady: number
  readonly calls: number
  readonly refused: number
  /** The most 429s in any ten seconds, where that was measured. */
  readonly inTenSeconds?: number
}

/** Below half a tenth of a percent nothing is told apart in the table, and so nothing is missed. */
const leeway = 0.0005

export function isMet(promised: Promised, measured: Measured): boolean {
  return (
    (promised.steady === null || measured.steady >= promised.steady - leeway) &&
    (promised.whole === null || measured.whole >= promised.whole - leeway) &&
    measured.refused <= promised.refused * measured.calls &&
    (measured.inTenSeconds ?? 0) <= (promised.inTenSeconds ?? Number.POSITIVE_INFINITY)
  )
}
