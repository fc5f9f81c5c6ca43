/**
 * What is known of a length, in milliseconds. What real services answer narrows it from both sides; where the
 * sides cross, what the bounds were built on is refuted.
 */
export class Bounds {
  least = 0
  most = Number.POSITIVE_INFINITY

  get isRefuted(): boolean {
    return this.least > this.most
  }

  atLeast(length: number): void {
    if (length > this.least) this.least = length
  }

  atMost(length: number): void {
    if (length < this.most) this.most = length
  }
}

/**
 * The length that is meant, of all between the bounds: nobody sets a window of 1.037 s, so it is the longest
 * multiple of `step`; where there is none, the longest length there is. Never too short while lengths are
 * multiples of the step, and too long by less than the bounds are apart.
 */
export function meant(
  { least, most }: { readonly least: number; readonly most: number },
  step: number,
): number {
  const multiple = Math.floor(most / step) * step
  return multiple > least && multiple > 0 ? multiple : most
}

const steps = [3_600_000, 600_000, 60_000, 30_000, 10_000, 5000, 1000, 500, 100]

/** The roundest length between two, the shorter of equals; null where only odd ones are left. */
export function roundest(least: number, most: number): number | null {
  for (const step of steps) {
    const multiple = Math.floor(least / step) * step + step
    if (multiple <= most) return multiple
  }
  return null
}

/** The roundest length between two, the longer of equals. */
export function roundestBelow(least: number, most: number): number | null {
  for (const step of steps) {
    const multiple = Math.floor(most / step) * step
    if (multiple > least) return multiple
  }
  return null
}
