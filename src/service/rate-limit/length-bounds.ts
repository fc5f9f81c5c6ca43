/** A window's length as an interval, in milliseconds. Answers narrow it; if it is empty, its model is contradicted. */
export class LengthBounds {
  min = 0
  max = Number.POSITIVE_INFINITY

  get isEmpty(): boolean {
    return this.min > this.max
  }

  raiseMin(length: number): void {
    if (length > this.min) this.min = length
  }

  lowerMax(length: number): void {
    if (length < this.max) this.max = length
  }
}

/**
 * The length that was probably configured: the longest multiple of `step` within the bounds, because a window of
 * 1.037 s is not configured; the maximum if there is none. Never too short while lengths are multiples of the step.
 */
export function snapToRound(
  { min, max }: { readonly min: number; readonly max: number },
  step: number,
): number {
  const multiple = Math.floor(max / step) * step
  return multiple > min && multiple > 0 ? multiple : max
}

const STEPS = [3_600_000, 600_000, 60_000, 30_000, 10_000, 5000, 1000, 500, 100]

/** The roundest length above `min` and up to `max`, the shorter of equals; null if only odd ones are left. */
export function roundestBetween(min: number, max: number): number | null {
  for (const step of STEPS) {
    const multiple = Math.floor(min / step) * step + step
    if (multiple <= max) return multiple
  }
  return null
}

/** The same, the longer of equals. */
export function roundestBelow(min: number, max: number): number | null {
  for (const step of STEPS) {
    const multiple = Math.floor(max / step) * step
    if (multiple > min) return multiple
  }
  return null
}

/** A length with its margin: two clocks drift apart by up to 0.01%, and a timer may fire a moment early. */
export const padded = (length: number): number => length + 2 + length / 10_000
