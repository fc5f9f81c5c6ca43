import { seeded } from '../support/simulated-service/random.ts'

/** The random choices of a case, all determined by its seed. */
export class Random {
  readonly #next: () => number

  constructor(seed: number) {
    this.#next = seeded(seed)
  }

  /** An integer from `from` to `to`, both included. */
  int(from: number, to: number): number {
    return from + Math.floor(this.#next() * (to - from + 1))
  }

  chance(share: number): boolean {
    return this.#next() < share
  }

  pick<One>(of: readonly One[]): One {
    return of[this.int(0, of.length - 1)] as One
  }

  list<One>(from: number, to: number, make: () => One): One[] {
    return Array.from({ length: this.int(from, to) }, make)
  }

  digits(from: number, to: number): string {
    return this.list(from, to, () => String(this.int(0, 9))).join('')
  }
}
