import type { LeftOutSource, RunReport, ServiceReport } from '../domain/report/run.ts'
import type { SpendAmount } from '../domain/report/shape.ts'
import * as jobs from '../store/jobs.ts'
import * as rows from '../store/rows.ts'
import type { RateStatus } from '../domain/rate-status.ts'
import { FAILED_ROW_STATES, ROW_STATES } from '../domain/row.ts'
import type { RunStatus } from '../domain/run.ts'
import { sumCosts, sumSpend, type BilledEndpoint, type Price } from '../domain/spend.ts'
import type { Preview } from '../pipeline/write-back.ts'
import { countCellsOfRun } from '../store/changes.ts'
import type { Database } from '../store/open.ts'
import { readLookupTotals } from '../store/run-progress.ts'
import { groupSkippedCells } from '../store/skipped-cells.ts'
import { listRunSpend, type EndpointSpend } from '../store/spend.ts'
import { countRunRowsBySource } from '../store/runs.ts'

/** What a run knows of one of its services, beside what is stored. */
interface ReportedPart {
  /** Of the service, and its number. */
  readonly name: string
  readonly service: number
  readonly status: RunStatus
  readonly reason: string | null
  readonly rate: RateStatus | null
  readonly price: Price | null
  readonly rowsSkipped: number
  /** Sources not read to the end for its budget. */
  readonly unread: readonly string[]
}

/** What a run knows of itself, beside what is stored. */
interface EndedRun {
  readonly id: number
  readonly status: RunStatus
  readonly reason: string | null
  /** Its services, in their order. */
  readonly parts: readonly ReportedPart[]
  /** Of several services, the columns that they fill, by source. */
  readonly columns?: Readonly<Record<string, readonly string[]>>
  readonly unread?: readonly string[]
  readonly leftOut?: readonly LeftOutSource[]
  /** Who has cancelled it. */
  readonly cancelledBy?: string | null
  /** Its workers do the steps of other runs, too. */
  readonly areWorkersShared: boolean
  readonly durationMs: number
  /** Dry runs only: what its rows would become. */
  readonly preview?: Preview | null
}

/** Builds the report from Postgres, so that it is right whichever processes did the work. */
export async function createRunReport(db: Database, run: EndedRun): Promise<RunReport> {
  const { preview = null, parts, leftOut = [], columns = {} } = run
  const [bySource, lookups, spend, jobStates, rowCells, skipped, written] = await Promise.all([
    countRunRowsBySource(db, run.id),
    readLookupTotals(db, run.id, null, preview?.lookups),
    listRunSpend(db, [run.id]),
    jobs.countJobStates(db, run.id),
    rows.countCells(db, run.id),
    preview === null ? groupSkippedCells(db, { run: run.id }) : preview.skipped,
    // A row that a run before has filled in part counts those cells, too.
    parts.length > 1 ? countCellsOfRun(db, run.id, columns) : null,
  ])
  const cells = written === null ? rowCells : { ...rowCells, written: sumOf([...written.values()]) }
  const states = preview?.states ?? sumStates(Object.values(bySource))
  const { submitted = 0, completed = 0, failed = 0, expired = 0, in_doubt = 0, submitting = 0 } = jobStates
  const unreadOverBudget = [...new Set(parts.flatMap(({ unread }) => unread))].sort()
  const amounts = parts.map((part) => sumSpend(spendOf(part, spend, parts), part.price))
  const services = written === null ? [] : await reportServices(db, run, { spend, written })
  return {
    run: run.id,
    status: run.status,
    reason: run.reason,
    ...(run.cancelledBy != null && { cancelled_by: run.cancelledBy }),
    rows: { picked: sumOf(Object.values(states)), ...states },
    ...(preview === null && { rows_by_source: bySource }),
    skipped_over_budget: sumOf(parts.map(({ rowsSkipped }) => rowsSkipped)),
    ...(unreadOverBudget.length > 0 && { unread_over_budget: unreadOverBudget }),
    ...(run.unread && run.unread.length > 0 && { unread_sources: run.unread }),
    ...(leftOut.length > 0 && { left_out: leftOut }),
    lookups,
    requests: countRequests(spend),
    spend: mergeAmounts(amounts),
    jobs: {
      submitted: submitted + completed + failed + expired,
      completed,
      failed,
      expired,
      in_doubt,
      waiting: submitted + submitting,
    },
    cells: preview?.cells ?? cells,
    skipped_cells: skipped,
    // Each of several services has its own.
    rate: toRateReport(run, parts.length === 1 ? (parts[0]?.rate ?? null) : null, spend),
    duration_ms: Math.round(run.durationMs),
    ...(services.length > 0 && { services }),
    ...(preview && { dry_run: { columns: preview.columns, sample: preview.sample } }),
  }
}

/** What was requested of a service; of the only one all, since its number is none that a user has given. */
const spendOf = <Spend extends { readonly service_id: number }>(
  { service }: ReportedPart,
  spend: readonly Spend[],
  parts: readonly ReportedPart[],
): readonly Spend[] => (parts.length === 1 ? spend : spend.filter(({ service_id }) => service_id === service))

/** Each of several services: what was requested of it, and what it has answered, filled and cost. */
async function reportServices(
  db: Database,
  run: EndedRun,
  of: {
    readonly spend: Awaited<ReturnType<typeof listRunSpend>>
    readonly written: ReadonlyMap<number, number>
  },
): Promise<ServiceReport[]> {
  const ended = run.preview?.rows ?? (await rows.countRowsByService(db, run.id))
  const reports: ServiceReport[] = []
  for (const part of run.parts) {
    const { service, name, status, reason, rate, price } = part
    const spend = spendOf(part, of.spend, run.parts)
    const { written: _, ...cells } = await rows.countCells(db, run.id, service)
    reports.push({
      service: name,
      status,
      reason,
      rows: ended.get(service) ?? 0,
      lookups: await readLookupTotals(db, run.id, service, run.preview?.lookups),
      spend: sumSpend(spend, price),
      cells: run.preview?.cellsBy.get(service) ?? { written: of.written.get(service) ?? 0, ...cells },
      rate: toRateReport(run, rate, spend),
    })
  }
  return reports
}

const sumOf = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0)

/** What was requested of several services, and has cost. Pure. */
function mergeAmounts(amounts: readonly SpendAmount[]): SpendAmount {
  const [first] = amounts
  if (first === undefined) return sumSpend([], null)
  const { cost: _, ...counts } = first
  const sums = Object.fromEntries(
    Object.keys(counts).map((name) => [
      name,
      sumOf(amounts.map((amount) => amount[name as keyof typeof counts] ?? 0)),
    ]),
  ) as typeof counts
  return { ...sums, cost: amounts.length === 1 ? first.cost : sumCosts(amounts.map(({ cost }) => cost)) }
}

function toRateReport(
  { areWorkersShared }: Pick<EndedRun, 'areWorkersShared'>,
  rate: RateStatus | null,
  spend: readonly EndpointSpend[],
): RunReport['rate'] {
  // Otherwise the leader's figures are those of all runs.
  const isOnlyRun = !areWorkersShared && rate?.isRemote !== true
  return {
    limit: rate?.limit ?? null,
    window_ms: rate?.windowMs ?? null,
    ...(rate?.state === 'banned' && { banned: true }),
    used: isOnlyRun && rate !== null ? rate.used : sumOf(spend.map(({ calls }) => calls)),
    permitted: isOnlyRun ? (rate?.permitted ?? null) : null,
    utilisation: isOnlyRun ? (rate?.utilisation ?? null) : null,
    ...(rate?.sharedKey && { shared_key: true }),
  }
}

function countRequests(spend: readonly EndpointSpend[]): RunReport['requests'] {
  const callsOf = (endpoint: BilledEndpoint): number =>
    sumOf(spend.filter((spent) => spent.endpoint === endpoint).map(({ calls }) => calls))
  return {
    person: callsOf('person'),
    company: callsOf('company'),
    bulk: callsOf('bulk'),
    retried: sumOf(spend.map(({ retried }) => retried)),
    throttled: sumOf(spend.map(({ throttled }) => throttled)),
  }
}

/** A report without the values of users' rows: it is stored, and those may have to be erased. */
export function withoutValues<Report extends object>(report: Report): Report {
  const { dry_run: dryRun, skipped_cells: skipped } = report as Partial<RunReport>
  return {
    ...report,
    ...(skipped && { skipped_cells: skipped.map((group) => ({ ...group, values: [] })) }),
    ...(dryRun && typeof dryRun === 'object' && { dry_run: { ...dryRun, sample: [] } }),
  }
}

const sumStates = (counts: readonly rows.RowStateCounts[]): rows.RowStateCounts =>
  Object.fromEntries(
    ROW_STATES.map((state) => [state, sumOf(counts.map((count) => count[state] ?? 0))]),
  ) as rows.RowStateCounts

/**
 * 0 completed; 1 failed; 2 unauthorized or misconfigured; 3 completed, but some rows failed or still wait; 4 budget reached, or no credits left;
 * 130 interrupted. Pure.
 */
export function runExitCode(
  report: Pick<RunReport, 'status' | 'rows' | 'unread_sources' | 'left_out'>,
): 0 | 1 | 2 | 3 | 4 | 130 {
  switch (report.status) {
    case 'failed':
      return 1
    case 'unauthorized':
    case 'misconfigured':
      return 2
    case 'interrupted':
      return 130
    case 'budget_reached':
    case 'out_of_credits':
      return 4
    case 'completed': {
      const open = report.rows.waiting + FAILED_ROW_STATES.reduce((sum, state) => sum + report.rows[state], 0)
      return open > 0 || report.unread_sources !== undefined || report.left_out !== undefined ? 3 : 0
    }
  }
}
