import type { Chance, Choices } from '../../../sandbox/chance.ts'

/** Values with how common each is, in parts of their sum. */
export type Shares<T> = Choices<readonly [parts: number, value: T]>

/** One of the values, as often as its share says. */
export function draw<T>(chance: Chance, shares: Shares<T>): T {
  let left = chance.next() * shares.reduce((sum, [parts]) => sum + parts, 0)
  for (const [parts, value] of shares) {
    left -= parts
    if (left < 0) return value
  }
  return shares[0][1]
}
