import type { Config, ConfigService } from '../config/config.ts'
import type { Environment } from '../config/environment.ts'
import { Lookup, type LookupState } from '../domain/lookup.ts'
import { billedUnits, type Money, type SpendAmount, sumSpend } from '../domain/spend.ts'
import { configuredAddress } from '../pipeline/deps.ts'
import type { Database } from '../store/open.ts'
import { type AnswerLine, readAnswers } from '../store/service-report.ts'
import { type KnownService, listServices } from '../store/services.ts'
import { listServiceSpend, type ServiceSpend } from '../store/spend.ts'
import { inTransaction } from '../store/transaction.ts'
import { FillrateError } from '../util/error-text.ts'
import { formatDuration } from '../util/format.ts'
import { QUERY_CANCELED, sqlStateOf } from '../util/sqlstates.ts'
import { expandSourceNames } from './validate-request.ts'

/** What a service answered, found and filled, and what it cost. */
export interface ServiceReportEntry extends SpendAmount {
  /** Its name in the configuration; its address if it has none. */
  readonly service: string
  /** Null: it was not called yet. */
  readonly host: string | null
  /** Lookups that it has answered, as their latest answers are. */
  readonly answered: number
  readonly found: number
  readonly not_found: number
  readonly rejected: number
  /** `found` of `answered`; null: it has answered nothing. */
  readonly hit_rate: number | null
  /** Cells whose last write, if it is not undone, has its value. */
  readonly cells: number
  readonly credits_per_cell: number | null
  readonly cost_per_cell: Money | null
}

/** What the last service of a source has filled, which those before it have left. */
export interface LastService {
  readonly source: string
  readonly service: string
  readonly cells: number
  readonly cost: Money | null
}

/** What each service earns. */
export interface ServiceReport {
  /** Null: since the start. */
  readonly since: Date | null
  readonly sources: readonly string[]
  /** In the order of the configuration; then others that this database knows. */
  readonly services: readonly ServiceReportEntry[]
  /** Of each source that has several services. */
  readonly last: readonly LastService[]
}

export interface ServiceReportOptions {
  /** None: all. */
  readonly sources: readonly string[]
  /** Answers, writes and spend since midnight UTC of this day. Null: since the start. */
  readonly since: Date | null
  /** Time for the statement that reads everything, in milliseconds. */
  readonly timeoutMs: number
}

/** For all that is stored: a million rows take a minute on a busy machine. */
export const REPORT_TIMEOUT_MS = 10 * 60_000

/** There is more to read than the time allows. */
export class ReportTooLarge extends FillrateError {
  override readonly name = 'ReportTooLarge'
}

/**
 * Reads the report by service, from Fillrate's own tables. Takes seconds for a million rows.
 * @throws ConfigProblems for an unknown source; ReportTooLarge
 */
export async function readServiceReport(
  db: Database,
  { config, environment }: ReportedConfig,
  { sources, since, timeoutMs }: ServiceReportOptions,
): Promise<ServiceReport> {
  const names = Object.keys(config.sources)
  const chosen = expandSourceNames(sources, names)
  const filter = { sources: chosen.length === 0 ? names : chosen, since }
  const services = matchServices(await listServices(db), config, environment)
  const columns = Object.fromEntries(
    Object.entries(config.sources).map(([name, { outputs }]) => [name, outputs.map(({ column }) => column)]),
  )
  const lines = await inTransaction(db, (tx) => readAnswers(tx, filter, columns), timeoutMs).catch(
    (error: unknown) => {
      if (sqlStateOf(error) !== QUERY_CANCELED) throw error
      throw new ReportTooLarge(
        `the lookups and changes could not be read within ${formatDuration(timeoutMs)}; choose one source, or a later day to begin with`,
        { cause: error },
      )
    },
  )
  const spend = await listServiceSpend(db, filter)
  const entries = services.map((service) => toEntry(service, lines, spend))
  return {
    since,
    sources: filter.sources,
    services: entries.filter(
      (one, n) => services[n]?.config !== null || one.answered + one.cells + one.calls > 0,
    ),
    last: filter.sources.flatMap((source) => toLast(source, config, services, lines, spend)),
  }
}

interface ReportedConfig {
  readonly config: Pick<Config, 'services' | 'serviceNames' | 'sources'>
  readonly environment: Environment
}

interface ReportedService {
  /** Below 0: the database does not know it yet. */
  readonly id: number
  readonly name: string
  readonly host: string | null
  /** Its settings. Null: it is not configured. */
  readonly config: ConfigService | null
}

/** The services of the configuration in its order, called or not, and then the others of this database. */
function matchServices(
  known: readonly KnownService[],
  config: ReportedConfig['config'],
  environment: Environment,
): ReportedService[] {
  const configured = config.services.map((service, n): ReportedService => {
    const { name } = service
    const address = configuredAddress(name, config, environment)
    const isOf = (one: KnownService): boolean =>
      name === null ? one.host === address || (address === null && one === known[0]) : one.name === name
    const { id = -1 - n, host = null } = known.find(isOf) ?? {}
    return { id, host, name: name ?? host ?? address ?? 'the service', config: service }
  })
  const others = known.filter((one) => !configured.some(({ id }) => id === one.id))
  return [
    ...configured,
    ...others.map(({ id, host, name }) => ({ id, host, name: name ?? host, config: null })),
  ]
}

function toEntry(
  { id, name, host, config }: ReportedService,
  lines: readonly AnswerLine[],
  spend: readonly ServiceSpend[],
): ServiceReportEntry {
  const own = lines.filter((one) => one.service === id)
  const countLookups = (state: LookupState): number =>
    sum(own.flatMap((one) => (one.kind === 'lookups' && one.state === state ? one.count : [])))
  const [found, notFound, rejected] = [
    countLookups(Lookup.found),
    countLookups(Lookup.notFound),
    countLookups(Lookup.rejected),
  ]
  const answered = found + notFound + rejected
  const cells = sum(own.flatMap((one) => (one.kind === 'cells' ? one.count : [])))
  const amount = sumSpend(
    spend.filter(({ service }) => service === id),
    config?.price ?? null,
  )
  const perCell = (amount: number): number | null =>
    cells === 0 ? null : Math.round((amount / cells) * 1e6) / 1e6
  const costPerCell = amount.cost && perCell(amount.cost.amount)
  return {
    service: name,
    host,
    answered,
    found,
    not_found: notFound,
    rejected,
    hit_rate: answered === 0 ? null : found / answered,
    ...amount,
    cells,
    credits_per_cell: perCell(billedUnits(amount).count),
    cost_per_cell:
      costPerCell === null ? null : { amount: costPerCell, currency: amount.cost?.currency ?? '' },
  }
}

/** None of a source with one service. */
function toLast(
  source: string,
  config: Pick<Config, 'sources'>,
  services: readonly ReportedService[],
  lines: readonly AnswerLine[],
  spend: readonly ServiceSpend[],
): LastService[] {
  const names = config.sources[source]?.turn.services ?? []
  const service = services.find((one) => one.config !== null && one.name === names.at(-1))
  if (names.length < 2 || service === undefined) return []
  const { id, name } = service
  const own = lines.filter((one) => one.service === id)
  const { cost } = sumSpend(
    spend.filter((one) => one.service === id && one.source === source),
    service.config?.price ?? null,
  )
  const cells = sum(own.flatMap((one) => (one.kind === 'cells' && one.source === source ? one.count : [])))
  return [{ source, service: name, cells, cost }]
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0)
