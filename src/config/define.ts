import type { RecordField } from '../domain/record-fields.ts'
import type { ServiceDefinition } from '../domain/service/adapter.ts'
import type { LookupBudget } from '../domain/spend.ts'
import type { ConditionSeverity } from '../domain/condition.ts'
import type { NotificationForm } from '../domain/notification.ts'
import type { OnDelete } from '../domain/deleted-row.ts'
import type { NextWhen, WritePolicy, SourceKind } from '../domain/mapping.ts'

// Written by hand beside the schema, because editors show these words: TypeScript 7.0 shows none of a mapped type, which `z.input` is, and
// the types of a schema's objects are published without comments. Names of sources, services and fields are generic, which no
// schema is. `test/unit/config/define.test.ts` holds both to one shape.

/** What lookups cost and how long they are good for, at all services or at one of several. */
interface LookupTerms {
  /** Jobs: many lookups with one call. */
  readonly bulk?: BulkSettings
  /** What the service charges. Plans, reports and the dashboard then show money beside lookups. */
  readonly price?: PriceSettings
  /** A record that was found is looked up again after this long. Default: 90d; of one of several services, that of all. */
  readonly refreshAfter?: Duration
  /** A lookup without a match is repeated after this long. Default: 30d; of one of several services, that of all. */
  readonly retryNotFoundAfter?: Duration
  /** The maximum number of attempts of a lookup. Default: 5; of one of several services, that of all. */
  readonly attempts?: number
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
}

interface NotifyConfig {
  /** Default: FILLRATE_NOTIFY_URL, for URLs that are secret. */
  readonly url?: string
  /** `json`: a JSON body; `slack`: `{ text }`, for Slack and compatible services. Default: json. */
  readonly form?: NotificationForm
  /**
   * What to report: `error` (failed runs, late schedules and other conditions that need a person, and their end), `warning`
   * (other conditions). Default: `error`.
   */
  readonly on?: readonly ConditionSeverity[]
}

/** With several services the fields are those of each, which only `check` knows. */
type FieldFor<Field extends string, ServiceName extends string> = [ServiceName] extends [never]
  ? Field
  : string

/** A configuration, as `fillrate.config.ts` exports it. Secrets come from the environment only. */
export interface ConfigInput<
  Name extends string = string,
  Person extends string = RecordField<'person'>,
  Company extends string = RecordField<'company'>,
  Adapter = never,
  ServiceName extends string = never,
> extends LookupTerms {
  /** For editors, in a .json configuration: `./node_modules/fillrate/fillrate.schema.json`. */
  readonly $schema?: string
  /** The mappings by name: which rows of which table, what identifies them, which columns to fill. */
  readonly sources: Readonly<
    Record<
      Name,
      | SourceConfig<'person', FieldFor<NoInfer<Person>, NoInfer<ServiceName>>, NoInfer<ServiceName>>
      | SourceConfig<'company', FieldFor<NoInfer<Company>, NoInfer<ServiceName>>, NoInfer<ServiceName>>
    >
  >
  /** The service, from `defineService`; or settings of the calls, with the service as `adapter`. Default: the built-in interface. */
  readonly service?: Adapter | CallSettings<Adapter>
  /**
   * In place of `service`, `bulk` and `price`: several services by name, which serve a row in turn. An entry
   * without an `adapter` is the built-in interface.
   */
  readonly services?: Readonly<Record<ServiceName, Adapter | ServiceConfig<Adapter>>>
  /** The maximum number of lookups of a run, or the money that it may spend. Without it, a run requires `--budget`. */
  readonly budget?: RunBudgetConfig
  /** Live sync. */
  readonly liveSync?: {
    /** Lookups a day (UTC). Default: the budget of a run. */
    readonly budget?: LookupBudget
  }
  /** Scheduled runs of `fillrate start`. */
  readonly schedule?: ReadonlyArray<ScheduleConfig<NoInfer<Name>>>
  /** Records older than this are deleted, and looked up again when needed. Default: kept forever. */
  readonly keepRecords?: Duration
  /** Deliveries and finished jobs older than this are deleted. Default: 30d. */
  readonly keepDeliveries?: Duration
  /** Changes older than this are deleted and can no longer be undone. Default: kept forever. */
  readonly keepChanges?: Duration
  /** Receivers of notifications, by default of what needs a person, and of its end: docs/notifications.md. */
  readonly notify?: readonly NotifyConfig[]
}

/** A configuration for the built-in service, or for another one. */
export type AnyConfigInput = ConfigInput<string, string, string, ServiceDefinition, string>

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
  const ServiceName extends string = never,
>(
  config: ConfigInput<Name, Person, Company, ServiceDefinition<Person, Company>, ServiceName>,
): ConfigInput<Name, Person, Company, ServiceDefinition<Person, Company>, ServiceName> {
  return config
}

// Not generic: of two instances of a property an editor shows no words.
interface OutputOptions {
  /** What happens to a column that already holds a value. Default: `blank`, only blank columns are written. */
  readonly policy?: WritePolicy
  /** Records of a lower confidence (0 to 1) are not written to this column. Default: the source's. */
  readonly minConfidence?: number
  /** From values of the field to values of the column. Other values are skipped. */
  readonly map?: Readonly<Record<string, string | number | boolean>>
  /** An SQL expression over `$value` (the field as text), `$json` (as jsonb) and `$confidence`. */
  readonly sql?: string
  /**
   * Outputs with the same group are written together or not at all: a cell that a person typed, or a
   * value that does not fit, keeps the others from being written. A field that the record lacks does not.
   */
  readonly group?: string
  /** Only matching values are written. A string is a regular expression without its slashes. */
  readonly matches?: RegExp | string
}

/** A field of the record, alone or with options. */
export type OutputConfig<Kind extends SourceKind, Field extends string = RecordField<Kind>> =
  | Field
  | (OutputOptions & {
      /** A field of the record. A dot leads into an object: `company.domain`. */
      readonly field: Field
      /** Takes any path of the record. Without it, a field that the service does not document is an error. */
      readonly unlisted?: false
    })
  | (OutputOptions & { readonly field: string; readonly unlisted: true })

/** By service: what each fills the column with. A service that is left out does not fill it. */
type OutputByService<Kind extends SourceKind, ServiceName extends string> = [ServiceName] extends [never]
  ? never
  : { readonly [Name in ServiceName]?: OutputConfig<Kind, string> }

/** SQL expressions over the source's table, `t`. The first usable of email, profile URL, name with company is looked up. */
interface PersonInputs {
  /** An email address. */
  readonly email?: string
  /** The URL of a personal LinkedIn profile. */
  readonly linkedin_url?: string
  /** The full name. Together with `company` or `company_domain`. Default: `first_name` and `last_name`, joined. */
  readonly name?: string
  /** Sent beside the name to services that take it. */
  readonly first_name?: string
  /** Sent beside the name to services that take it. */
  readonly last_name?: string
  /** The name of the company. Together with a name. */
  readonly company?: string
  /** A domain or a URL of the company, sent to services that take it. They need no `company` then. */
  readonly company_domain?: string
}

interface CompanyInputs {
  /** A domain or a URL. */
  readonly domain: string
}

/** A table whose rows are people or companies. */
export interface SourceConfig<
  Kind extends SourceKind,
  Field extends string = RecordField<Kind>,
  ServiceName extends string = never,
> {
  /** What a row describes; decides the available inputs and fields. */
  readonly kind: Kind
  /** With its schema if needed, quoted if needed: `crm.contacts`, `"Contacts"`. Named `t` in every expression. */
  readonly table: string
  /** Joins for the expressions: `left join crm.accounts a on a.id = t.account_id`. */
  readonly joins?: string
  /** The columns that identify a row. Default: the primary key. */
  readonly key?: string | readonly string[]
  /**
   * Which rows are eligible: `t.deleted_at is null`. A row must meet each condition of a list; `fillrate plan`
   * shows what each one leaves out. Default: all.
   */
  readonly where?: string | readonly string[]
  /** What keeps when a row was enriched last, by whatever did it. It replaces a condition on that time in `where`. */
  readonly freshness?: {
    /**
     * A column with a timestamptz, timestamp or date. A row whose value is younger than `refreshAfter` counts as
     * enriched, whatever enriched it, and is not picked. Each write sets it to now().
     */
    readonly column: string
  }
  /** Live sync: `fillrate start` enriches its rows as they change. Default: false. */
  readonly follow?: boolean
  /**
   * What happens to what is stored of a row that was deleted from the table. `forget`: it is erased an hour later,
   * unless another row needs it. `keep`: it stays, for `explain` and `undo`. Default: `forget`.
   */
  readonly onDelete?: OnDelete
  /**
   * The most rows that are written in an hour, `{ perHour: 5_000 }`, by all processes together, for a table whose
   * writes are uploaded elsewhere. An undo is not slowed down. Default: as fast as possible.
   */
  readonly writes?: {
    /** The most rows in an hour, from 60 on: a sixtieth of them at once, and the others evenly. */
    readonly perHour: number
  }
  /** Records of a lower confidence (0 to 1) are not used. Default: 0. */
  readonly minConfidence?: number
  /** A row whose lookup finds nothing goes on to its next identifier. Default: false. */
  readonly cascade?: boolean
  /**
   * False in what `fillrate init` has written: nothing of the source is looked up or written until a person has
   * taken this out. Default: true.
   */
  readonly reviewed?: boolean
  /**
   * Which of the services serve its rows, in this order. Default: all that take one of its inputs and
   * fill one of its columns, in the order of `services`.
   */
  readonly services?: ReadonlyArray<
    | ServiceName
    | {
        /** A service of `services`. */
        readonly name: ServiceName
        /**
         * Which rows go on to it from the service before. `miss`: rows without a record of enough confidence;
         * `blank`: also rows with a column to be filled that is still blank. Default: `miss`.
         */
        readonly when?: NextWhen
        /** Its records of a lower confidence (0 to 1) are not used. Default: the source's. */
        readonly minConfidence?: number
      }
  >
  /** SQL expressions over the source's table, `t`, that identify a row. */
  readonly inputs: Kind extends 'person' ? PersonInputs : CompanyInputs
  /**
   * Columns to fill, each with the field of the record that fills it; with several services, that of each
   * by its name, where they differ. `attributes.department` is a key inside a jsonb column.
   */
  readonly outputs: Readonly<Record<string, OutputConfig<Kind, Field> | OutputByService<Kind, ServiceName>>>
  /** Columns to set only when an output is written: `{ enriched_at: 'now()' }`. */
  readonly touch?: Readonly<Record<string, string>>
}

/** A number with a unit: `30s`, `15m`, `6h`, `90d`, `2 weeks`. */
export type Duration = `${number}${'' | ' '}${DurationUnit}`
type DurationUnit =
  | ('ms' | 's' | 'm' | 'h' | 'd' | 'w' | 'y')
  | ('sec' | 'secs' | 'second' | 'seconds' | 'min' | 'mins' | 'minute' | 'minutes')
  | ('hr' | 'hrs' | 'hour' | 'hours' | 'day' | 'days' | 'week' | 'weeks' | 'yr' | 'yrs' | 'year' | 'years')

/** How a service is called. */
export interface CallSettings<Adapter> {
  /**
   * The service, from `defineService`, or the path of a module that exports one by default, relative to
   * the configuration. Default: the built-in interface.
   */
  readonly adapter?: Adapter | string
  /** The maximum number of concurrent calls, over up to a quarter more connections. Default: 32. */
  readonly concurrency?: number
  /** Timeout of one call. Default: 30s. */
  readonly timeout?: Duration
  /** The share of the rate limit (0 to 0.9) reserved for live sync. Default: 0.1. */
  readonly reserve?: number
  /**
   * A name for the account that the rate limit belongs to, where its API key changes or several keys share the
   * limit. Default: each key has a limit of its own.
   */
  readonly account?: string
}

/** Jobs of a service. */
export interface BulkSettings {
  /**
   * How many lookups that go in bulk must wait before they are submitted. Default: 50; half a job of a
   * service that takes fewer, and two where the results are in the answer.
   */
  readonly minimum?: number
  /** A job is given up after this long without a delivery. Default: 6h. */
  readonly deadline?: Duration
  /**
   * How long a completed job waits for further deliveries before inputs without a result are requested singly.
   * Default: 5m.
   */
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
export interface ServiceConfig<Adapter> extends CallSettings<Adapter>, LookupTerms {
  /** The most that a run, or live sync in a day, may spend at this service, in lookups or in money. Default: what the budget of the run leaves. */
  readonly budget?: RunBudgetConfig
}
