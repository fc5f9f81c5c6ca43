import type { SpendAmount } from '../domain/report/shape.ts'
import type { BudgetReport, SpendReport } from '../domain/report/status.ts'
import { listFollowed, type Config } from '../config/config.ts'
import { type Price, roundCredits, sumCosts, sumSpend } from '../domain/spend.ts'
import * as budgets from '../store/budgets.ts'
import type { Database } from '../store/open.ts'
import { listServices } from '../store/services.ts'
import * as spend from '../store/spend.ts'
import { toBudgetLimit } from './validate-request.ts'

/** The parts of a configuration that decide how much may be spent, and the price. */
export type SpendSettings = Pick<Config, 'services' | 'liveSync' | 'sources' | 'schedule'>

type ServiceAmounts = NonNullable<SpendReport['services']>[number]

const DAYS = 30

/** Reads what was spent, with a few statements on Fillrate's own tables. */
export const readSpend = async (
  db: Database,
  settings: SpendSettings,
  now: number = Date.now(),
): Promise<SpendReport> => (await readSpendByDay(db, settings, now)).report

/** A service with its counts of the last 30 days, by day, source and endpoint. */
export interface ServiceDays {
  readonly amounts: ServiceAmounts
  readonly days: readonly spend.DaySpend[]
}

/** The same, and the counts from which it is made. */
export async function readSpendByDay(
  db: Database,
  settings: SpendSettings,
  now: number,
): Promise<{ readonly report: SpendReport; readonly services: readonly ServiceDays[] }> {
  const daySpend = await spend.listDaySpend(db, DAYS)
  const today = new Date(now).toISOString().slice(0, 10)
  const ofToday = daySpend.filter(({ day }) => day === today)
  const known = await listServices(db)
  const services = known.map(({ id, host, name }) => {
    const own = (all: typeof daySpend) => all.filter(({ service_id }) => service_id === id)
    const sum = (all: typeof daySpend): SpendAmount => sumSpend(own(all), priceOf(settings, name))
    const amounts = { service: name ?? host, host, today: sum(ofToday), last_30_days: sum(daySpend) }
    return { amounts, days: own(daySpend) }
  })
  const report = {
    today: sumPriced(ofToday, settings),
    last_30_days: sumPriced(daySpend, settings),
    ...(known.length > 1 && { services: services.map(({ amounts }) => amounts) }),
    budgets: await listBudgets(db, settings),
  }
  return { report, services }
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

/** What each of some runs spent, killed and running ones included; none: nothing. */
export async function readRunSpends(
  db: Database,
  ids: readonly number[],
  prices: Prices | null,
): Promise<ReadonlyMap<number, SpendAmount>> {
  const byRun = Map.groupBy(await spend.listRunSpend(db, ids), ({ run }) => run)
  return new Map(ids.map((id) => [id, sumPriced(byRun.get(id) ?? [], prices)]))
}

async function listBudgets(db: Database, settings: SpendSettings): Promise<BudgetReport[]> {
  const ofDay: BudgetReport[] = []
  if (listFollowed(settings.sources).length > 0) {
    const limit = toBudgetLimit(settings.liveSync.budget)
    ofDay.push(toReport({ kind: 'live_sync', run: null, limit }, await budgets.readDayBudget(db)))
  }
  const ofRuns = (await budgets.listRunBudgets(db)).map((run) =>
    toReport({ kind: run.isScheduled ? 'schedule' : 'run', run: run.id, limit: run.limit }, run),
  )
  const isFlat = settings.services.every(({ adapter }) => adapter.credits.isFlat)
  return [...ofDay, ...ofRuns].map((budget) => (isFlat ? budget : { ...budget, unit: 'credit' }))
}

const toReport = (
  of: Pick<BudgetReport, 'kind' | 'run' | 'limit'>,
  { billed, spent }: budgets.ShownUsage,
): BudgetReport => ({
  ...of,
  spent: billed,
  left: of.limit === null ? null : Math.max(0, roundCredits(of.limit - spent)),
})
