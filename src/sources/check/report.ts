import type { SourceProblem } from '../problems.ts'

/** Gathers what is wrong with one source, so that all of it can be told at once. */
export class Report {
  readonly problems: SourceProblem[] = []
  readonly #source: string

  constructor(source: string) {
    this.#source = source
  }

  add(place: string, found: string, expected: string, todo: string): void {
    this.problems.push({ source: this.#source, place, found, expected, todo })
  }
}
