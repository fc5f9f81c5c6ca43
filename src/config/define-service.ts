import type { LookupBudget } from '../domain/spend.ts'

/** A number with a unit: `30s`, `15m`, `6h`, `90d`, `2 weeks`. */
export type Duration = `${number}${'' | ' '}${DurationUnit}`
type DurationUnit =
  | ('ms' | 's' | 'm' | 'h' | 'd' | 'w' | 'y')
  | ('sec' | 'secs' | 'second' | 'seconds' | 'min' | 'mins' | 'minute' | 'minutes')
  | ('hr' | 'hrs' | 'hour' | 'hours' | 'day' | 'days' | 'week' | 'weeks' | 'yr' | 'yrs' | 'year' | 'years')

/** How a service is called. */
export interface CallSettings<Adapter> {
  /**
   * The service, from `defineService`, or the path of a module that exports one by default, relative to the configuration.
   * Default: the built-in interface.
   */
  readonly adapter?: Adapter | string
  /** The maximum number of concurrent calls, over up to a quarter more connections. Default: 32. */
  readonly concurrency?: number
  /** Timeout of one call. Default: 30s. */
  readonly timeout?: Duration
  /** The share of the rate limit (0 to 0.9) reserved for live sync. Default: 0.1. */
  readonly reserve?: number
  /**
   * A name for the account that the rate limit belongs to, where its API key changes: runs with any of its keys share a
   * limit, and a new key continues with what was learned of it. Default: each key has a limit of its own.
   */
  readonly account?: string
}

/** Jobs of a service. */
export interface BulkSettings {
  /**
   * How many lookups that go in bulk must wait before they are submitted. Default: 50; half a job of a service that takes fewer,
   * and two where the results are in the answer.
   */
  readonly minimum?: number
  /** A job is given up after this long without a delivery. Default: 6h. */
  readonly deadline?: Duration
  /** How long a completed job waits for further deliveries before inputs without a result are requested singly; those of a failed one are at once. Default: 5m. */
  readonly grace?: Duration
}

/** What a service charges. */
export interface PriceSettings {
  /** Three letters (ISO 4217): `EUR`. */
  readonly currency: string
  /** What a lookup costs, or what one of a person and one of a company cost. */
  readonly lookup:
    | number
    | {
        /** What a lookup of a person costs. */
        readonly person: number
        /** What a lookup of a company costs. */
        readonly company: number
      }
}

/** What a run may spend: lookups, or money. */
export type RunBudgetConfig =
  | LookupBudget
  | {
      /** The sum. It requires the price of a lookup. */
      readonly amount: number
      /** Three letters (ISO 4217): `EUR`, as in `price`. */
      readonly currency: string
    }

/** One of several services. */
export interface ServiceConfig<Adapter> extends CallSettings<Adapter> {
  /** Jobs: many lookups with one call. */
  readonly bulk?: BulkSettings
  /** What the service charges. Plans, reports and the dashboard then show money beside lookups. */
  readonly price?: PriceSettings
  /** The most that a run, or live sync in a day, may spend at this service, in lookups or in money. Default: what the budget of the run leaves. */
  readonly budget?: RunBudgetConfig
  /** A record that it found is looked up again after this long. Default: that of all services. */
  readonly refreshAfter?: Duration
  /** A lookup without a match is repeated after this long. Default: that of all services. */
  readonly retryNotFoundAfter?: Duration
  /** The maximum number of attempts of a lookup. Default: that of all services. */
  readonly attempts?: number
}
