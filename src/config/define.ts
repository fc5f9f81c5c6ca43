import type { CompanySource, PersonSource } from './define-source.ts'
import type {
  BulkSettings,
  CallSettings,
  Duration,
  PriceSettings,
  RunBudgetConfig,
  ServiceConfig,
} from './define-service.ts'
import type { RecordField } from '../domain/record-fields.ts'
import type { ServiceDefinition } from '../domain/service/adapter.ts'
import type { LookupBudget } from '../domain/spend.ts'
import type { NotificationForm, NotificationTopic } from '../domain/notification.ts'

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

/** With several services the fields are those of each, which only `check` knows. */
type FieldFor<Field extends string, ServiceName extends string> = [ServiceName] extends [never]
  ? Field
  : string

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
  ServiceName extends string = never,
> {
  /** For editors, in a .json configuration: `./node_modules/fillrate/fillrate.schema.json`. */
  readonly $schema?: string
  /** The mappings by name: which rows of which table, what identifies them, which columns to fill. */
  readonly sources: Readonly<
    Record<
      Name,
      | PersonSource<FieldFor<NoInfer<Person>, NoInfer<ServiceName>>, NoInfer<ServiceName>>
      | CompanySource<FieldFor<NoInfer<Company>, NoInfer<ServiceName>>, NoInfer<ServiceName>>
    >
  >
  /**
   * The service, from `defineService`; or settings of the calls, with the service as `adapter`. Default: the built-in
   * interface. A path leads to a module that exports a service by default.
   */
  readonly service?: Adapter | CallSettings<Adapter>
  /**
   * In place of `service`, `bulk` and `price`: several services by name, which serve a row in turn. Each has
   * variables of its own, FILLRATE_NAME_BASE_URL, FILLRATE_NAME_API_KEY and so on. A path leads to a module that exports a
   * service by default; an entry without an `adapter` is the built-in interface.
   */
  readonly services?: Readonly<Record<ServiceName, Adapter | string | ServiceConfig<Adapter>>>
  /** Jobs: many lookups with one call. */
  readonly bulk?: BulkSettings
  /** A found record is looked up again after this long. Default: 90d. */
  readonly refreshAfter?: Duration
  /** A lookup without a match is repeated after this long. Default: 30d. */
  readonly retryNotFoundAfter?: Duration
  /** The maximum number of attempts of a lookup. Default: 5. */
  readonly attempts?: number
  /** The maximum number of lookups of a run, or the money that it may spend. Without it, a run requires `--budget`. */
  readonly budget?: RunBudgetConfig
  /** What the service charges. Plans, reports and the dashboard then show money beside lookups. */
  readonly price?: PriceSettings
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
export type AnyConfigInput = ConfigInput<string, string, string, ServiceDefinition | string, string>

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
  config: ConfigInput<Name, Person, Company, ServiceDefinition<Person, Company> | string, ServiceName>,
): ConfigInput<Name, Person, Company, ServiceDefinition<Person, Company> | string, ServiceName> {
  return config
}
