import type { Duration } from '../../config/define.ts'

/** How large a demo is, and how long it waits. */
export interface DemoSettings {
  /** Decides the companies, the people, the records and the faults. */
  readonly seed: number
  readonly accounts: number
  readonly contacts: number
  /** Calls that the service allows in 2 s. */
  readonly limit: number
  /**
   * After this long a job is given up and its members are asked singly. The sandbox forgets its jobs when a demo is
   * interrupted, so the next one would wait for them in vain.
   */
  readonly jobDeadline: Duration
}

/** Large enough that the quota is felt, and over within a minute. */
export const FULL: DemoSettings = { seed: 7, accounts: 800, contacts: 5_000, limit: 150, jobDeadline: '15s' }
