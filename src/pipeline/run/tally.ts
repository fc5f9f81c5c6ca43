import type { Requests } from './report.ts'

/** What this process did in a run. Everything else about a run is counted in Postgres. */
export class Tally {
  picked = 0
  asked = 0
  submitted = 0
  written = 0
  person = 0
  company = 0
  bulk = 0
  retried = 0
  throttled = 0
  /** When something last moved, by `performance.now`. */
  movedAt = performance.now()

  moved(): void {
    this.movedAt = performance.now()
  }

  requests(): Requests {
    const { person, company, bulk, retried, throttled } = this
    return { person, company, bulk, retried, throttled }
  }
}
