import type { WritePolicy, SourceKind } from '../domain/mapping.ts'
import type { NotificationKind } from '../domain/run.ts'
import type { LookupBudget } from './config.ts'
import type { RecordField } from './fields.ts'

/** A number and its unit: `30s`, `15m`, `6h`, `90d`, `2 weeks`. */
export type Duration = `${number}${'' | ' '}${DurationUnit}`
type DurationUnit =
  | ('ms' | 's' | 'm' | 'h' | 'd' | 'w' | 'y')
  | ('sec' | 'secs' | 'second' | 'seconds' | 'min' | 'mins' | 'minute' | 'minutes')
  | ('hr' | 'hrs' | 'hour' | 'hours' | 'day' | 'days' | 'week' | 'weeks' | 'yr' | 'yrs' | 'year' | 'years')

interface OutputOptions {
  /** What may happen to a column that already holds a value. Default: `blank`, only a blank column is written. */
  readonly policy?: WritePolicy
  /** 0 to 1. A record below it leaves this column alone. Default: the source's. */
  readonly minConfidence?: number
  /** Values of the field to values of the column. A value that is not in it is skipped. */
  readonly map?: Readonly<Record<string, string | number | boolean>>
  /** An SQL expression over `$value` (the field as text), `$json` (as jsonb) and `$confidence`. */
  readonly sql?: string
  /** Outputs with the same group are written whole or not at all. */
  readonly group?: string
  /** The value must match this to be written. A text is a regular expression without its slashes. */
  readonly matches?: RegExp | string
  /** What happens to a text that is longer than the column. Default: `skip`. */
  readonly tooLong?: 'skip' | 'truncate'
  /** `json`: an array or object goes into a text column as JSON. */
  readonly as?: 'json'
}

/** A field of the record, alone or with options. `unlisted` allows a field that the service's interface doesn't list. */
export type OutputConfig<Kind extends SourceKind> =
  | RecordField<Kind>
  | (OutputOptions & { readonly field: RecordField<Kind>; readonly unlisted?: false })
  | (OutputOptions & { readonly field: string; readonly unlisted: true })

/** SQL expressions over the source's table, `t`. The first usable of email, profile URL, name and company is asked. */
type PersonInputs = {
  readonly email?: string
  /** The URL of a personal LinkedIn profile. */
  readonly linkedin_url?: string
} & (
  | { readonly name: string; readonly company: string }
  | { readonly name?: never; readonly company?: never }
)

interface CompanyInputs {
  /** An SQL expression over the source's table, `t`: a domain or a URL. */
  readonly domain: string
}

interface SourceConfig<Kind extends SourceKind> {
  /** What a row is about: it decides which inputs and which fields there are. */
  readonly kind: Kind
  /** With its schema where it has one, quoted where it must be: `crm.contacts`, `"Contacts"`. It is `t` in every expression. */
  readonly table: string
  /** Joins for the expressions: `left join crm.accounts a on a.id = t.account_id`. */
  readonly joins?: string
  /** Column or columns that identify a row. Default: the primary key. */
  readonly key?: string | readonly string[]
  /** Which rows: `t.deleted_at is null`. Default: all. */
  readonly where?: string
  /**
   * A timestamptz that moves when a row changes: a pass then costs what has changed. Of a timestamp without time zone, or
   * a date, 12 hours more are read, because the zone of its writers is not known.
   */
  readonly changedAt?: string
  /** `fillrate start` enriches its rows as they change. Default: false. */
  readonly follow?: boolean
  /** 0 to 1. A record below it is not used. Default: 0. */
  readonly minConfidence?: number
  /** A row whose lookup finds nothing goes on to its next identifier. Default: false. */
  readonly cascade?: boolean
  /** Columns to fill, each with the field that fills it. `attributes.department` is a key inside a jsonb column. */
  readonly outputs: Readonly<Record<string, OutputConfig<Kind>>>
  /** Columns to set when an output is written, and only then: `{ enriched_at: 'now()' }`. */
  readonly touch?: Readonly<Record<string, string>>
}

export interface PersonSource extends SourceConfig<'person'> {
  readonly inputs: PersonInputs
}

export interface CompanySource extends SourceConfig<'company'> {
  readonly inputs: CompanyInputs
}

interface ScheduleConfig<Name extends string = string> {
  /** Minute, hour, day of month, month, day of week: `0 2 * * *`. */
  readonly cron: string
  /** IANA name, `Europe/Oslo`. Default: the zone of the machine. */
  readonly timezone?: string
  /** Default: all. */
  readonly sources?: readonly Name[]
  /** Lookups of each time, however often a crash begins it again. Default: the budget of the configuration. */
  readonly budget?: LookupBudget
  /** Rows that one run may pick. Default: all. */
  readonly limit?: number
  /** Whether a tick that was missed is run once at the next start. Default: true. */
  readonly catchUp?: boolean
}

interface NotifyConfig {
  /** Default: FILLRATE_NOTIFY_URL, for addresses that are secret. */
  readonly url?: string
  /** A signed JSON body, or `{ text }` as Slack takes it. Default: json. */
  readonly form?: 'json' | 'slack'
  /** Of which events. Default: all. */
  readonly on?: readonly NotificationKind[]
}

/** What a configuration file holds. Secrets are not among it: they come from the environment only. */
export interface ConfigInput<Name extends string = string> {
  /** For editors, in a .json configuration. */
  readonly $schema?: string
  /** The mappings, by name: which rows of which table, what identifies them, which columns may be filled. */
  readonly sources: Readonly<Record<Name, PersonSource | CompanySource>>
  readonly service?: {
    /** Calls under way at once. Default: 32. */
    readonly concurrency?: number
    /** For one call. Default: 30s. */
    readonly timeout?: Duration
    /** 0 to 0.9: the share of the quota that is kept for what is urgent, a sync. Default: 0.1. */
    readonly reserve?: number
  }
  readonly bulk?: {
    /** Lookups by email that must wait before they go in bulk. Default: 50. */
    readonly minimum?: number
    /** After this long without a delivery a job is given up. Default: 6h. */
    readonly deadline?: Duration
    /**
     * When a job is over and some inputs have no result, they are requested singly after this long without a further
     * delivery. Default: 5m.
     */
    readonly grace?: Duration
  }
  /** After this long a found record is asked for again. Default: 90d. */
  readonly refreshAfter?: Duration
  /** After this long a lookup that found nothing is asked again. Default: 30d. */
  readonly retryNotFoundAfter?: Duration
  /** Tries of one lookup before it is failed. Default: 5. */
  readonly attempts?: number
  /** Lookups that one run may ask. Without it a run must be given `--budget`. */
  readonly budget?: LookupBudget
  readonly schedule?: ReadonlyArray<ScheduleConfig<NoInfer<Name>>>
  /** Stored answers older than this are deleted, and asked again when wanted. Default: kept. */
  readonly keepRecords?: Duration
  /** Deliveries and ended jobs older than this are deleted. Default: 30d. */
  readonly keepDeliveries?: Duration
  /** Changes older than this are deleted, and can then not be undone. Default: kept. */
  readonly keepChanges?: Duration
  /** Whom to tell when a run ends, fails, reaches its budget or finds nothing, or a job is late. */
  readonly notify?: readonly NotifyConfig[]
}

/**
 * Gives completion and checks at compile time to a configuration file, and returns it as it is:
 *
 *     export default defineConfig({ sources: { contacts: { kind: 'person', … } } })
 */
export function defineConfig<const Name extends string>(config: ConfigInput<Name>): ConfigInput<Name> {
  return config
}
