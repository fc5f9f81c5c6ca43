import type { Config } from '../config/config.ts'
import { Lookup } from '../domain/lookup.ts'
import { billedUnits, type Money, type SpendAmount, sumSpend } from '../domain/spend.ts'
import type { Database } from '../store/open.ts'
import {
  type AnswerLine,
  readAnswers,
  type ServiceMinimum,
  type ServiceOutput,
} from '../store/service-report.ts'
import { listServices } from '../store/services.ts'
import { listServiceSpend, type ServiceSpend } from '../store/spend.ts'
import { inTransaction } from '../store/transaction.ts'
import { FillrateError } from '../util/error-text.ts'
import { formatDuration } from '../util/format.ts'
import { QUERY_CANCELED, sqlStateOf } from '../util/sqlstates.ts'
import { listParticipants, matchServices, type ReportedService } from './reported-services.ts'
import { playSources, type WhatIf } from './service-what-if.ts'
import { expandSourceNames, refuseUnknownSource } from './validate-request.ts'

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
  /** Of these, cells for which no other service has a record with a value. */
  readonly only_cells: number
  /** Of `only_cells`, cells of rows that all services of their source have answered: the others may know the rest. */
  readonly only_cells_compared: number
  readonly columns: readonly {
    readonly source: string
    readonly column: string
    readonly cells: number
    readonly only_cells: number
  }[]
  readonly credits_per_cell: number | null
  readonly cost_per_cell: Money | null
}

/** What each service earns, and what another order of them would have come to. */
export interface ServiceReport {
  /** Null: since the start. */
  readonly since: Date | null
  readonly sources: readonly string[]
  /** In the order of the configuration; then others that this database knows. */
  readonly services: readonly ServiceReportEntry[]
  /** What was requested by runs that are deleted since, of whichever service; null: nothing. */
  readonly unassigned: SpendAmount | null
  readonly what_if: readonly WhatIf[]
}

export interface ServiceReportOptions {
  /** None: all. */
  readonly sources: readonly string[]
  /** Answers, writes, rows and spend since midnight UTC of this day. Null: since the start. */
  readonly since: Date | null
  /** Only this order of services, by name, beside the configured one. Null: all orders of up to four services. */
  readonly order: readonly string[] | null
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
 * @param address of the service of a configuration with one
 * @throws ConfigProblems for an unknown source or service; ReportTooLarge
 */
export async function readServiceReport(
  db: Database,
  { config, address }: { readonly config: Config; readonly address: string | null },
  { sources, since, order, timeoutMs }: ServiceReportOptions,
): Promise<ServiceReport> {
  const names = Object.keys(config.sources)
  const chosen = expandSourceNames(sources, names)
  for (const name of chosen) if (!names.includes(name)) refuseUnknownSource(name, names)
  const filter = { sources: chosen.length === 0 ? names : chosen, since }
  const services = matchServices(await listServices(db), config, address)
  const { outputs, minimums } = listOutputs(config, services, filter.sources)
  const lines = await inTransaction(db, (tx) => readAnswers(tx, filter, outputs, minimums), timeoutMs).catch(
    (error: unknown) => {
      if (sqlStateOf(error) !== QUERY_CANCELED) throw error
      throw new ReportTooLarge(
        `the lookups, rows and changes could not be read within ${formatDuration(timeoutMs)}; choose one source, or a later day to begin with`,
        { cause: error },
      )
    },
  )
  const spend = await listServiceSpend(db, filter)
  const ofDeleted = spend.filter((one) => one.service === null)
  const entries = services.map((service) => toEntry(service, services, lines, spend))
  return {
    since,
    sources: filter.sources,
    services: entries.filter(
      (one, n) => services[n]?.view !== null || one.answered + one.cells + one.calls > 0,
    ),
    unassigned: ofDeleted.length === 0 ? null : sumSpend(ofDeleted, null),
    what_if: playSources({ config, services, entries, lines, sources: filter.sources, order }),
  }
}

/** Where the records of each service have the columns of the sources: of one that is not configured, where those of the first have. */
function listOutputs(
  config: Config,
  services: readonly ReportedService[],
  sources: readonly string[],
): { outputs: ServiceOutput[]; minimums: ServiceMinimum[] } {
  const mapped = services.flatMap(({ id: service, view }) =>
    sources.flatMap((source) => {
      const mapping = (view ?? config).sources[source]
      return mapping === undefined ? [] : [{ source, service, mapping }]
    }),
  )
  return {
    outputs: mapped.flatMap(({ mapping, ...of }) =>
      mapping.outputs.map(({ column, field, minConfidence }) => ({
        ...of,
        column,
        field,
        minConfidence: Math.max(mapping.minConfidence, minConfidence ?? 0),
      })),
    ),
    minimums: mapped.map(({ mapping, ...of }) => ({ ...of, minConfidence: mapping.minConfidence })),
  }
}

function toEntry(
  { id, name, host, view }: ReportedService,
  services: readonly ReportedService[],
  lines: readonly AnswerLine[],
  spend: readonly ServiceSpend[],
): ServiceReportEntry {
  const own = lines.filter((one) => one.service === id)
  const sources = new Set(own.flatMap(({ source }) => source ?? []))
  const countLookups = (state: string): number =>
    sum(own.filter((one) => one.kind === 'lookups' && one.state === state).map(({ count }) => count))
  const [found, notFound, rejected] = [
    countLookups(Lookup.found),
    countLookups(Lookup.notFound),
    countLookups(Lookup.rejected),
  ]
  const answered = found + notFound + rejected
  const columns = own
    .filter(({ kind }) => kind === 'cells')
    .map(({ source, column, count, only }) => ({
      source: source ?? '',
      column: column ?? '',
      cells: count,
      only_cells: only ?? 0,
    }))
    .toSorted((a, b) => a.source.localeCompare(b.source) || b.cells - a.cells)
  const cells = sum(columns.map((one) => one.cells))
  const amount = sumSpend(
    spend.filter(({ service }) => service === id),
    view?.price ?? null,
  )
  const compared = [...sources].flatMap((source) => {
    const participants = listParticipants(services, lines, source)
    const ofAll = lines.filter(
      (one) =>
        one.kind === 'rows' &&
        one.source === source &&
        participants.every((service) => Object.hasOwn(one.answers ?? {}, service.id)),
    )
    return ofAll.map((one) => one.count * (one.cells?.[`{${id}}`] ?? 0))
  })
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
    only_cells: sum(columns.map((one) => one.only_cells)),
    only_cells_compared: sum(compared),
    columns,
    credits_per_cell: perCell(billedUnits(amount).count),
    cost_per_cell:
      costPerCell === null ? null : { amount: costPerCell, currency: amount.cost?.currency ?? '' },
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0)
