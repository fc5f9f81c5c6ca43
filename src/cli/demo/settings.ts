/** How large a demo is. */
export interface DemoSettings {
  /** Decides the companies, the people, the records and the faults. */
  readonly seed: number
  readonly accounts: number
  readonly contacts: number
  /** Calls that the service allows in 2 s. */
  readonly limit: number
}

/** Large enough that the quota is felt, and over within a minute. */
export const FULL: DemoSettings = { seed: 7, accounts: 800, contacts: 5_000, limit: 150 }
