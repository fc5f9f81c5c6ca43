import type { OnDelete } from '../domain/deleted-row.ts'
import type { TooLong, WritePolicy, SourceKind } from '../domain/mapping.ts'
import type { RecordField } from '../domain/record-fields.ts'
import type { ServiceDefinition } from '../domain/service/adapter.ts'
import type { LookupBudget, SourceBudget } from '../domain/spend.ts'
import type { NotificationForm, NotificationTopic } from '../domain/notification.ts'

/** A number with a unit: `30s`, `15m`, `6h`, `90d`, `2 weeks`. */
export type Duration = `${number}${'' | ' '}${DurationUnit}`
type DurationUnit =
  | ('ms' | 's' | 'm' | 'h' | 'd' | 'w' | 'y')
  | ('sec' | 'secs' | 'second' | 'seconds' | 'min' | 'mins' | 'minute' | 'minutes')
  | ('hr' | 'hrs' | 'hour' | 'hours' | 'day' | 'days' | 'week' | 'weeks' | 'yr' | 'yrs' | 'year' | 'years')

interface OutputOptions {
  /** What happens to a column that already holds a value. Default: `blank`, only blank columns are written. */
  readonly policy?: WritePolicy
  /** Records of a lower confidence (0 to 1) are not written to this column. Default: the source's. */
  readonly minConfidence?: number
  /** From values of the field to values of the column. Other values are skipped. */
  readonly map?: Readonly<Record<string, string | number | boolean>>
  /** An SQL expression over `$value` (the field as text), `$json` (as jsonb) and `$confidence`. */
  readonly sql?: string
  /** Outputs with the same group are written together or not at all. */
  readonly group?: string
  /**
   * The value is written only if no other row has it that agrees in these columns; with `[]`, no other row of the table.
   * For columns without a unique index.
   */
  readonly unique?: readonly string[]
  /** Only matching values are written. A string is a regular expression without its slashes. */
  readonly matches?: RegExp | string
  /** What happens to text that is longer than the column. Default: `skip`. */
  readonly tooLong?: TooLong
  /** `json`: an array or object is written into a text column as JSON. */
  readonly as?: 'json'
}

/** A field of the record, alone or with options. */
export type OutputConfig<Kind extends SourceKind, Field extends string = RecordField<Kind>> =
  | Field
  | (OutputOptions & {
      /** A field of the record. A dot leads into an object: `company.domain`. */
      readonly field: Field
      /** Takes a field that the service does not document. */
      readonly unlisted?: false
    })
  | (OutputOptions & { readonly field: string; readonly unlisted: true })

/** SQL expressions over the source's table, `t`. The first usable of email, profile URL, name with company is looked up. */
type PersonInputs = {
  /** An email address. */
  readonly email?: string
  /** The URL of a personal LinkedIn profile. */
  readonly linkedin_url?: string
} & (
  | {
      /** The full name. Together with `company`. */
      readonly name: string
      /** The name of the company. Together with `name`. */
      readonly company: string
    }
  | { readonly name?: never; readonly company?: never }
)

interface CompanyInputs {
  /** A domain or a URL. */
  readonly domain: string
}

interface SourceConfig<Kind extends SourceKind, Field extends string> {
  /** What a row describes; decides the available inputs and fields. */
  readonly kind: Kind
  /** With its schema if needed, quoted if needed: `crm.contacts`, `"Contacts"`. Named `t` in every expression. */
  readonly table: string
  /** Joins for the expressions: `left join crm.accounts a on a.id = t.account_id`. */
  readonly joins?: string
  /** The columns that identify a row. Default: the primary key. */
  readonly key?: string | readonly string[]
  /** Which rows are eligible: `t.deleted_at is null`. Default: all. */
  readonly where?: string
  /**
   * A timestamptz that moves when a row changes, so that a pass reads only changes. For a timestamp without time zone or a
   * date, 12 hours more are read, because the time zone of its writers is unknown.
   */
  readonly changedAt?: string
  /**
   * What keeps when a row was enriched last, by whatever did it: `column` or `read`. It replaces a condition on that time in
   * `where`.
   */
  readonly freshness?:
    | {
        /**
         * A timestamptz, timestamp or date, or a key inside a jsonb column. A row whose value is younger than `refreshAfter`
         * counts as enriched, whatever enriched it, and is not picked. Each write sets it to now().
         */
        readonly column: string
      }
    | {
        /**
         * In place of `column`: an expression for such a time that this source does not write, of a joined table for instance.
         * A time that Fillrate itself has set there, by another source, does not count.
         */
        readonly read: string
      }
  /** Live sync: `fillrate start` enriches its rows as they change. Default: false. */
  readonly follow?: boolean
  /**
   * What happens to what is stored of a row that was deleted from the table. `forget`: its record, changes and
   * deliveries are erased an hour later, unless another row needs them. `keep`: they stay, for `explain` and `undo`.
   * Either way it is in no count. Default: `forget`.
   */
  readonly onDelete?: OnDelete
  /**
   * The most lookups for this source in a run, and in a day of live sync: a number, or a share of that budget, `30%`.
   * Default: what the other sources leave.
   */
  readonly budget?: SourceBudget
  /** Records of a lower confidence (0 to 1) are not used. Default: 0. */
  readonly minConfidence?: number
  /** A row whose lookup finds nothing goes on to its next identifier. Default: false. */
  readonly cascade?: boolean
  /**
   * Columns to fill, each with the field of the record that fills it. `attributes.department` is a key inside a jsonb
   * column.
   */
  readonly outputs: Readonly<Record<string, OutputConfig<Kind, Field>>>
  /** Columns to set only when an output is written: `{ enriched_at: 'now()' }`. */
  readonly touch?: Readonly<Record<string, string>>
}

/** A table whose rows are people. */
export interface PersonSource<Field extends string = RecordField<'person'>> extends SourceConfig<
  'person',
  Field
> {
  /** SQL expressions over the source's table, `t`, that identify a row. */
  readonly inputs: PersonInputs
}

/** A table whose rows are companies. */
export interface CompanySource<Field extends string = RecordField<'company'>> extends SourceConfig<
  'company',
  Field
> {
  /** SQL expressions over the source's table, `t`, that identify a row. */
  readonly inputs: CompanyInputs
}

interface ScheduleConfig<Name extends string = string> {
  /** Minute, hour, day of month, month, day of week: `0 2 * * *`; or a name such as `@daily`. */
  readonly cron: string
  /** An IANA time zone such as `Europe/Oslo`. Default: the machine's. */
  readonly timezone?: string
  /** Which sources. Default: all. */
  readonly sources?: readonly Name[]
  /** Lookups per scheduled run, across restarts after a crash. Default: the budget of the configuration. */
  readonly budget?: LookupBudget
  /** Rows that a run may pick. Default: all. */
  readonly limit?: number
  /** Whether a missed scheduled run is caught up once at the next start. Default: true. */
  readonly catchUp?: boolean
}

interface NotifyConfig {
  /** Default: FILLRATE_NOTIFY_URL, for URLs that are secret. */
  readonly url?: string
  /** `json`: a signed JSON body; `slack`: `{ text }`, for Slack and compatible services. Default: json. */
  readonly form?: NotificationForm
  /**
   * What to report: `error` (failed runs, late schedules and other troubles that need a person, and their end), `warning`
   * (other troubles), `completed` (runs, live sync apart), `no_matches` (those that enriched nothing). Default: `error`.
   */
  readonly on?: readonly NotificationTopic[]
}

/**
 * A configuration, as `fillrate.config.ts` exports it. Secrets come from the environment only.
 * @example
 * const config: ConfigInput = {
 *   sources: {
 *     contacts: {
 *       kind: 'person',
 *       table: 'crm.contacts',
 *       inputs: { email: 't.email' },
 *       outputs: { job_title: 'title', phone: { field: 'phone', policy: 'tracked' } },
 *     },
 *   },
 *   budget: 10_000,
 * }
 */
export interface ConfigInput<
  Name extends string = string,
  Person extends string = RecordField<'person'>,
  Company extends string = RecordField<'company'>,
  Adapter = never,
> {
  /** For editors, in a .json configuration: `./node_modules/fillrate/fillrate.schema.json`. */
  readonly $schema?: string
  /** The mappings by name: which rows of which table, what identifies them, which columns to fill. */
  readonly sources: Readonly<Record<Name, PersonSource<NoInfer<Person>> | CompanySource<NoInfer<Company>>>>
  /**
   * The service, from `defineService`; or settings of the calls, with the service as `adapter`. Default: the built-in
   * interface. A path leads to a module that exports a service by default.
   */
  readonly service?:
    | Adapter
    | {
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
  /** Jobs: many lookups with one call. */
  readonly bulk?: {
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
  /** A found record is looked up again after this long. Default: 90d. */
  readonly refreshAfter?: Duration
  /** A lookup without a match is repeated after this long. Default: 30d. */
  readonly retryNotFoundAfter?: Duration
  /** The maximum number of attempts of a lookup. Default: 5. */
  readonly attempts?: number
  /** The maximum number of lookups of a run. Without it, a run requires `--budget`. */
  readonly budget?: LookupBudget
  /** What the service charges. Plans, reports and the dashboard then show money beside lookups. */
  readonly price?: {
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
  /** Budgets of live sync. */
  readonly liveSync?: {
    /** Lookups a day (UTC) for rows that change singly. Default: the budget of a run. */
    readonly budget?: LookupBudget
    /** Lookups a day (UTC) for imports: statements that change more than 100 rows. Default: the budget of a run. */
    readonly importBudget?: LookupBudget
  }
  /** Scheduled runs of `fillrate start`. */
  readonly schedule?: ReadonlyArray<ScheduleConfig<NoInfer<Name>>>
  /** Stored results older than this are deleted, and looked up again when needed. Default: kept forever. */
  readonly keepRecords?: Duration
  /** Deliveries and finished jobs older than this are deleted. Default: 30d. */
  readonly keepDeliveries?: Duration
  /** Changes older than this are deleted and can no longer be undone. Default: kept forever. */
  readonly keepChanges?: Duration
  /** Receivers of notifications, by default of what needs a person, and of its end: docs/notifications.md. */
  readonly notify?: readonly NotifyConfig[]
  /** What the dashboard may do. */
  readonly dashboard?: {
    /**
     * Whether a run that is started on the dashboard may have a condition in SQL, which runs as the user of DATABASE_URL.
     * Default: false.
     */
    readonly allowWhere?: boolean
  }
}

/** A configuration for the built-in service, or for another one. */
export type AnyConfigInput = ConfigInput<string, string, string, ServiceDefinition | string>

/**
 * Returns the configuration unchanged, with completion and type checks for `fillrate.config.ts`.
 * @example
 * export default defineConfig({
 *   sources: {
 *     contacts: { kind: 'person', table: 'contacts', inputs: { email: 't.email' }, outputs: { job_title: 'title' } },
 *   },
 *   schedule: [{ cron: '0 2 * * *', sources: ['contacts'] }],
 *   budget: 10_000,
 * })
 */
export function defineConfig<
  const Name extends string,
  const Person extends string = RecordField<'person'>,
  const Company extends string = RecordField<'company'>,
>(
  config: ConfigInput<Name, Person, Company, ServiceDefinition<Person, Company> | string>,
): ConfigInput<Name, Person, Company, ServiceDefinition<Person, Company> | string> {
  return config
}
