import type { Config } from '../config/config.ts'
import { runOutcome, type RunState, type Trigger } from '../domain/run.ts'
import {
  forecastDay,
  foreseeExhaustion,
  type LookupBudget,
  type Money,
  type Price,
  resolveSourceBudgets,
  roundCredits,
  type SpendAmount,
  sumCosts,
  sumSpend,
} from '../domain/spend.ts'
import * as budgets from '../store/budgets.ts'
import type { Database } from '../store/open.ts'
import * as runs from '../store/runs.ts'
import { listServices } from '../store/services.ts'
import * as spend from '../store/spend.ts'

/** The parts of a configuration that decide how much may be spent, and the price. */
export type SpendSettings = Pick<Config, 'services' | 'liveSync' | 'sources' | 'schedule'>

/** Before a configuration is loaded: no price, and no budget to report. */
export const NO_SPEND_SETTINGS: SpendSettings = {
  services: [],
  liveSync: { budget: null },
  sources: {},
  schedule: [],
}

/**
 * The requests to the service, their cost, what is left of each budget, and a forecast. Requests are counted with each
 * answer, killed and running runs included. Days are in UTC.
 */
export interface SpendReport {
  readonly today: SpendAmount
  readonly last_30_days: SpendAmount
  /** The last 30 days, oldest first, days without spend included. */
  readonly days: readonly (SpendAmount & {
    readonly day: string
    /** Lookups by source. */
    readonly by_source: Readonly<Record<string, number>>
  })[]
  /** Of the last 30 days, the most expensive first. */
  readonly sources: readonly (SpendAmount & { readonly source: string })[]
  /** By service, where this database knows several: each at its own price. */
  readonly services?: readonly {
    /** Its name in the configuration; its address if it has none. */
    readonly service: string
    readonly host: string
    readonly today: SpendAmount
    readonly last_30_days: SpendAmount
  }[]
  /** The latest that requested anything, newest first. */
  readonly runs: readonly (SpendAmount & {
    readonly run: number
    readonly trigger: Trigger
    readonly state: RunState
    /** How it ended, more exactly than its state; of a run in progress, its state. */
    readonly outcome: string
    readonly sources: readonly string[]
    readonly started_at: Date
  })[]
  readonly budgets: readonly BudgetReport[]
  readonly forecast: {
    /** By midnight, at today's pace. */
    readonly today: Forecast
    /** At the pace of the last seven days, or of those since the first spend. */
    readonly next_30_days: Forecast
  }
}

interface Forecast {
  readonly lookups: number
  /** Only where a lookup does not cost one credit. */
  readonly credits?: number
  readonly cost: Money | null
}

/**
 * What is left of a budget. A lookup is charged when a run claims it, which is before it is requested: a budget may have
 * spent more than the service bills.
 */
export interface BudgetReport {
  /** `live_sync`: of today. `run` and `schedule`: of a run in progress. */
  readonly kind: 'run' | 'schedule' | 'live_sync'
  /** What it counts, if not lookups. */
  readonly unit?: 'credit'
  /** The run; null for a budget of the day. */
  readonly run: number | null
  /** The source that has this share of the budget; null: the whole budget. */
  readonly source: string | null
  /** Null is unlimited. */
  readonly limit: number | null
  readonly spent: number
  readonly left: number | null
  /** When it is used up, at today's pace. Null: not today, or it is used up already. */
  readonly used_up_at: Date | null
}

const DAYS = 30
const WEEK_DAYS = 7
const RUNS = 20

/** Reads what was spent, with a few statements on Fillrate's own tables. */
export async function readSpend(
  db: Database,
  settings: SpendSettings,
  now: number = Date.now(),
): Promise<SpendReport> {
  const daySpend = await spend.listDaySpend(db, DAYS)
  const days = listDays(now).map((day) => {
    const ofDay = daySpend.filter((one) => one.day === day)
    const bySource = Map.groupBy(ofDay, (one) => one.source)
    return {
      day,
      ...sumPriced(ofDay, settings),
      by_source: Object.fromEntries([...bySource].map(([name, all]) => [name, sumSpend(all, null).lookups])),
    }
  })
  const sources = [...Map.groupBy(daySpend, (one) => one.source)]
    .map(([source, all]) => ({ source, ...sumPriced(all, settings) }))
    .sort((a, b) => (b.cost?.amount ?? b.lookups) - (a.cost?.amount ?? a.lookups))
  const today = sumPriced(
    daySpend.filter((one) => one.day === days.at(-1)?.day),
    settings,
  )
  const first = days.findIndex(({ calls, lookups }) => calls + lookups > 0)
  const week = days.slice(Math.max(first, DAYS - WEEK_DAYS))
  const weekSpend = sumPriced(
    daySpend.filter((one) => week.some(({ day }) => day === one.day)),
    settings,
  )
  return {
    today,
    last_30_days: sumPriced(daySpend, settings),
    days,
    sources,
    ...(await readByService(db, settings, now)),
    runs: await listRuns(db, settings),
    budgets: await listBudgets(db, settings, now),
    forecast: {
      today: scaleSpend(today, forecastDay(today.lookups, now) / Math.max(1, today.lookups)),
      next_30_days: scaleSpend(weekSpend, DAYS / week.length),
    },
  }
}

export type Prices = Pick<SpendSettings, 'services'>

/** The price of a service, by its name in the configuration; with one service, the price of what any has billed. */
function priceOf({ services }: Prices, service: string | null): Price | null {
  const own = services.find(({ name }) => name === null || name === service)
  return own?.price ?? null
}

/** What parts come to, each at the price of its service. @param prices null: unknown */
function sumPriced(parts: readonly spend.NamedSpend[], prices: Prices | null): SpendAmount {
  const [only] = prices?.services ?? []
  const total = sumSpend(parts, only?.name === null ? only.price : null)
  const billed = parts.filter((part) => part.lookups > 0 || (part.credits ?? 0) > 0)
  if (prices === null || only === undefined || only.name === null || billed.length === 0) return total
  const costs = [...Map.groupBy(billed, ({ service }) => service)].map(
    ([name, own]) => sumSpend(own, priceOf(prices, name)).cost,
  )
  return { ...total, cost: sumCosts(costs) }
}

async function readByService(
  db: Database,
  prices: Prices,
  now: number,
): Promise<Pick<SpendReport, 'services'>> {
  const known = await listServices(db)
  if (known.length < 2) return {}
  const startOfDay = now - (now % DAY_MS)
  const since = (ms: number) => spend.listServiceSpend(db, { sources: null, since: new Date(ms) })
  const [today, month] = [await since(startOfDay), await since(startOfDay - (DAYS - 1) * DAY_MS)]
  const services = known.map(({ id, host, name }) => {
    const sum = (all: typeof month): SpendAmount =>
      sumSpend(
        all.filter(({ service }) => service === id),
        priceOf(prices, name),
      )
    return { service: name ?? host, host, today: sum(today), last_30_days: sum(month) }
  })
  return { services }
}

const DAY_MS = 86_400_000

const scaleSpend = ({ lookups, credits, cost }: SpendAmount, factor: number): Forecast => ({
  lookups: Math.round(lookups * factor),
  ...(credits !== undefined && { credits: Math.max(credits, Math.round(credits * factor)) }),
  cost: cost && { ...cost, amount: Math.round(cost.amount * factor * 100) / 100 },
})

/** The days in UTC up to today, oldest first. */
const listDays = (now: number): string[] =>
  Array.from({ length: DAYS }, (_, n) => new Date(now - (DAYS - 1 - n) * DAY_MS).toISOString().slice(0, 10))

/** What each of some runs spent, killed and running ones included; none: nothing. */
export async function readRunSpends(
  db: Database,
  ids: readonly number[],
  prices: Prices | null,
): Promise<ReadonlyMap<number, SpendAmount>> {
  const byRun = Map.groupBy(await spend.listRunSpend(db, ids), (one) => one.run)
  return new Map(ids.map((id) => [id, sumPriced(byRun.get(id) ?? [], prices)]))
}

async function listRuns(db: Database, prices: Prices): Promise<SpendReport['runs']> {
  const ids = await spend.listSpendingRuns(db, RUNS)
  const spends = await readRunSpends(db, ids, prices)
  const stored = await runs.findRuns(db, ids)
  return stored.map((run) => ({
    run: run.id,
    trigger: run.trigger,
    state: run.state,
    outcome: runOutcome(run),
    sources: run.sources,
    started_at: run.started_at,
    ...(spends.get(run.id) ?? sumPriced([], prices)),
  }))
}

async function listBudgets(db: Database, settings: SpendSettings, now: number): Promise<BudgetReport[]> {
  const mappings = Object.values(settings.sources)
  const followed = mappings.filter(({ follow }) => follow)
  const ofDay: BudgetReport[] = []
  if (followed.length > 0) {
    const { spent, bySource } = await budgets.readDayBudget(db)
    const of = { kind: 'live_sync' as const, run: null, limit: toLimit(settings.liveSync.budget) }
    ofDay.push(...listParts(of, { spent, bySource }, followed, now))
  }
  const ofRuns = (await budgets.listRunBudgets(db)).flatMap((run) =>
    listParts(
      { kind: run.isScheduled ? ('schedule' as const) : ('run' as const), run: run.id, limit: run.limit },
      run,
      mappings.filter(({ name }) => run.sources.includes(name)),
      null,
    ),
  )
  const isFlat = settings.services.every(({ adapter }) => adapter.credits.isFlat)
  return [...ofDay, ...ofRuns].map((one) => (isFlat ? one : { ...one, unit: 'credit' }))
}

const toLimit = (budget: LookupBudget | null): number | null =>
  budget === 'unlimited' || budget === null ? null : budget

/** A budget, and the shares of its sources. @param now null: it does not restart at midnight */
function listParts(
  of: Pick<BudgetReport, 'kind' | 'run' | 'limit'>,
  usage: Pick<budgets.BudgetUsage, 'spent' | 'bySource'>,
  mappings: readonly SpendSettings['sources'][string][],
  now: number | null,
): BudgetReport[] {
  const part = (source: string | null, limit: number | null, spent: number): BudgetReport => ({
    ...of,
    source,
    limit,
    spent,
    left: limit === null ? null : Math.max(0, roundCredits(limit - spent)),
    used_up_at: limit === null || now === null ? null : foreseeExhaustion(spent, limit, now),
  })
  return [
    part(null, of.limit, usage.spent),
    ...[...resolveSourceBudgets(mappings, of.limit)].map(([name, limit]) =>
      part(name, limit, usage.bySource[name] ?? 0),
    ),
  ]
}
