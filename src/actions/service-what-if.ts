import type { Config } from '../config/config.ts'
import { describeOrders, type PlayedOrder, toWholes } from '../domain/order-answer.ts'
import {
  type AnsweredRows,
  listOrders,
  type OrderedService,
  type OrderForecast,
  playOrder,
  type Range,
  type RowCost,
} from '../domain/service-order.ts'
import type { ServiceTurn } from '../domain/mapping.ts'
import { billedUnits, type SpendAmount } from '../domain/spend.ts'
import type { AnswerLine } from '../store/service-report.ts'
import { didYouMean, listNames } from '../util/text.ts'
import { listParticipants, parseServices, type ReportedService } from './reported-services.ts'
import { requestProblem } from './validate-request.ts'

/** A number of the what-if: between `low` and `high`; `likely` is null where nothing stored allows an estimate. */
type Figure = Range

/** What orders of the services of a source would have come to, from stored answers. */
export interface WhatIf {
  readonly source: string
  /** Rows of which a service has answered. */
  readonly rows: number
  /** Of these, rows of which all have. */
  readonly rows_all_answered: number
  /** Of the costs; null: not every service has a price, all in one currency. */
  readonly currency: string | null
  /** Which order is the cheapest for the same cells, and whether the last service is worth it: sentences. */
  readonly answer: readonly string[]
  /** The configured one first. */
  readonly orders: readonly {
    readonly services: readonly string[]
    readonly is_configured: boolean
    readonly rows_found: Figure
    readonly cells: Figure
    readonly cost: Figure | null
    /** Rows of which an answer that this order needs is not stored. */
    readonly rows_estimated: number
    /** Of these, rows without any comparable one. */
    readonly rows_without_estimate: number
    readonly steps: readonly {
      readonly service: string
      readonly requested: Figure
      readonly found: Figure
      /** Cells that it fills, and none before it. */
      readonly cells: Figure
      readonly cost: Figure | null
    }[]
  }[]
}

/** All orders of more services would be 120 and more. */
const MAX_PERMUTED = 4

type BilledService = SpendAmount & { readonly hit_rate: number | null }

interface Played {
  readonly config: Config
  readonly services: readonly ReportedService[]
  /** Of each service, in the same order. */
  readonly entries: readonly BilledService[]
  readonly lines: readonly AnswerLine[]
  readonly sources: readonly string[]
  readonly order: readonly string[] | null
}

/** Plays the orders of the services of each source that has answers. @throws ConfigProblems for an unknown service */
export function playSources(of: Played): WhatIf[] {
  const names = of.services.map(({ name }) => name)
  for (const name of of.order ?? [])
    if (!names.includes(name))
      throw requestProblem(
        `service ${name}`,
        'no such service',
        `one of: ${listNames(names)}`,
        didYouMean(name, names),
      )
  return of.sources.flatMap((source) => {
    const rows = of.lines.filter((one) => one.kind === 'rows' && one.source === source)
    return rows.length === 0 ? [] : [playSource(of, source, rows)]
  })
}

function playSource(of: Played, source: string, rows: readonly AnswerLine[]): WhatIf {
  const { config, services, lines, order } = of
  const mapping = config.sources[source]
  const participants = sortByTurn(listParticipants(services, lines, source), mapping?.turn)
  const groups = toGroups(rows, participants, mapping?.turn.services.length ?? 0)
  const { costs, currency } = priceRows(of, source, participants, groups)
  const configured = participants.map((service, index) => ({
    index,
    when: whenOf(service, participants, source),
  }))
  const chosen = order?.flatMap((name) =>
    configured.filter(({ index }) => participants[index]?.name === name),
  )
  const others =
    chosen !== undefined
      ? chosen.length === 0 || isSame(chosen, configured)
        ? []
        : [chosen]
      : configured.length > MAX_PERMUTED
        ? []
        : listOrders(configured).filter((one) => !isSame(one, configured))
  const orders = [configured, ...others].map((one): PlayedOrder => ({
    services: one.map(({ index }) => participants[index]?.name ?? ''),
    isConfigured: one === configured,
    forecast: playOrder(groups, one, costs, mapping?.outputs.length ?? 0),
  }))
  const played = {
    rows: countRows(groups),
    rowsAllAnswered: countRows(
      groups.filter(({ answers }) => answers.every((one) => typeof one === 'boolean')),
    ),
    currency,
    orders,
  }
  return {
    source,
    rows: played.rows,
    rows_all_answered: played.rowsAllAnswered,
    currency,
    answer: describeOrders(played),
    orders: orders.map((one) => toJson(one, currency !== null)),
  }
}

const countRows = (groups: readonly AnsweredRows[]): number => groups.reduce((all, { rows }) => all + rows, 0)

const isSame = (a: readonly OrderedService[], b: readonly OrderedService[]): boolean =>
  a.length === b.length && a.every(({ index }, n) => index === b[n]?.index)

/** In the order in which they serve the source; others, as they were met, after these. */
function sortByTurn(
  participants: readonly ReportedService[],
  turn: ServiceTurn | undefined,
): ReportedService[] {
  const inTurn = (turn?.services ?? []).flatMap(
    (name) => participants.find((one) => one.view !== null && one.name === name) ?? [],
  )
  return [...inTurn, ...participants.filter((one) => !inTurn.includes(one))]
}

/** When a row reaches a service that one before it has found. */
const whenOf = (
  { name }: ReportedService,
  participants: readonly ReportedService[],
  source: string,
): OrderedService['when'] =>
  participants.some(({ view }) => {
    const next = view?.sources[source]?.turn.next
    return next?.service === name && next.when === 'blank'
  })
    ? 'blank'
    : 'miss'

/** The lines of a source by what the services have answered, and of which of them the cells are. */
function toGroups(
  rows: readonly AnswerLine[],
  participants: readonly ReportedService[],
  inTurn: number,
): AnsweredRows[] {
  const indexOf = new Map(participants.map(({ id }, n) => [id, n]))
  const groups = new Map<
    string,
    { rows: number; answers: AnsweredRows['answers']; cells: Map<number, number> }
  >()
  for (const line of rows) {
    const answers = participants.map(({ id }): AnsweredRows['answers'][number] => line.answers?.[id] ?? null)
    const cells = new Map<number, number>()
    for (const [set, count] of Object.entries(line.cells ?? {})) {
      const indexes = parseServices(set).flatMap((id) => indexOf.get(id) ?? [])
      // What it filled, it has found, even if the record is deleted since.
      for (const index of indexes) answers[index] = true
      cells.set(
        indexes.reduce((mask, index) => mask | (1 << index), 0),
        count,
      )
    }
    // A row reaches a service only after those before it: without an answer of one, it had no input for that.
    const last = answers.slice(0, inTurn).findLastIndex((one) => one !== null)
    for (let index = 0; index < last; index++) answers[index] ??= 'passed'
    const key = `${answers.join()} ${[...cells.keys()].toSorted((a, b) => a - b).join()}`
    const group = groups.get(key)
    if (group === undefined)
      groups.set(key, { rows: line.count, answers, cells: timesRows(cells, line.count) })
    else {
      group.rows += line.count
      for (const [set, count] of timesRows(cells, line.count))
        group.cells.set(set, (group.cells.get(set) ?? 0) + count)
    }
  }
  return [...groups.values()]
}

const timesRows = (cells: ReadonlyMap<number, number>, rows: number): Map<number, number> =>
  new Map([...cells].map(([set, count]) => [set, count * rows]))

/** What a row costs that is requested of each service, by the answer, in money. */
function priceRows(
  { services, entries, lines, config }: Played,
  source: string,
  participants: readonly ReportedService[],
  groups: readonly AnsweredRows[],
): { costs: RowCost[]; currency: string | null } {
  const kind = config.sources[source]?.kind ?? 'person'
  const currencies = new Set(participants.map(({ view }) => view?.price?.currency ?? null))
  const [currency = null] = currencies.size === 1 ? currencies : []
  const costs = participants.map(({ id, view }, n) => {
    const entry = entries[services.findIndex((one) => one.id === id)]
    const rows = countRows(groups.filter(({ answers }) => typeof answers[n] === 'boolean'))
    const lookups = countAnswered(lines.filter((one) => one.source === source && one.service === id))
    // Rows share lookups, and a cascade requests several for a row.
    const perRow = rows === 0 ? 1 : lookups / rows
    const price = (view?.price?.[kind] ?? 0) * perRow
    const { found, missed } = creditsOf(entry, view, kind)
    return { found: found * price, missed: missed * price }
  })
  return { costs, currency }
}

/** Lookups that were requested for a source, and answered. */
const countAnswered = (lines: readonly AnswerLine[]): number =>
  lines
    .filter(({ state }) => state === 'found' || state === 'not_found' || state === 'rejected')
    .reduce((all, { count }) => all + count, 0)

/** What a lookup has cost by its answer, in credits: a miss as it is declared, and a record what is left of the bill. */
function creditsOf(
  entry: BilledService | undefined,
  view: Config | null,
  kind: 'person' | 'company',
): RowCost {
  const credits = view?.adapter.credits
  if (credits === undefined || credits.isFlat) return { found: 1, missed: 1 }
  const lookupKind = kind === 'company' ? 'domain' : 'email'
  const missed = credits.of(lookupKind, null)
  const most = credits.most[lookupKind]
  if (entry === undefined || entry.hit_rate === null || entry.lookups === 0) return { found: most, missed }
  const hits = entry.lookups * entry.hit_rate
  const left = billedUnits(entry).count - missed * (entry.lookups - hits)
  return { found: hits === 0 ? most : Math.max(0, left / hits), missed }
}

function toJson(
  { services, isConfigured, forecast }: PlayedOrder,
  isPriced: boolean,
): WhatIf['orders'][number] {
  const { steps, total, estimatedRows, blindRows } = forecast as OrderForecast
  return {
    services,
    is_configured: isConfigured,
    rows_found: toWholes(total.found),
    cells: toWholes(total.cells),
    cost: isPriced ? total.cost : null,
    rows_estimated: estimatedRows,
    rows_without_estimate: blindRows,
    steps: steps.map(({ requested, found, cells, cost }, n) => ({
      service: services[n] ?? '',
      requested: toWholes(requested),
      found: toWholes(found),
      cells: toWholes(cells),
      cost: isPriced ? cost : null,
    })),
  }
}
