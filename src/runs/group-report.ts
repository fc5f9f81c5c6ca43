import type { DryRunReport } from '../pipeline/preview.ts'
import { mergeSkippedGroups } from '../domain/skipped-cell.ts'
import { sumCosts } from '../domain/spend.ts'
import { describeError } from '../util/error-text.ts'
import type { RunReport, RunStatus } from './report.ts'

/** How the run of one service ended. */
export interface EndedServiceRun {
  readonly run: number
  readonly service: string
  /** Null: it failed, with `error`. */
  readonly report: RunReport | null
  readonly error: unknown
}

/** How the runs of several services ended together: what needs a person first. */
const BY_SEVERITY: readonly RunStatus[] = [
  'failed',
  'unauthorized',
  'interrupted',
  'out_of_credits',
  'budget_reached',
  'completed',
]

/**
 * The report of the runs that were started together, one for each service. Its number is that of the first; a row is counted by the
 * service that it ended with. Pure.
 * @throws what ended the runs, where none has a report
 */
export function mergeReports(ended: readonly EndedServiceRun[]): RunReport {
  const reports = ended.flatMap(({ report }) => report ?? [])
  const [first] = reports
  if (first === undefined) throw ended[0]?.error
  const failures = ended.flatMap(({ service, error }) =>
    error === null ? [] : [`${service}: ${describeError(error)}`],
  )
  const reasons = ended.flatMap(({ service, report }) =>
    report?.reason == null ? [] : [`${service}: ${report.reason}`],
  )
  const statuses = new Set<RunStatus>([
    ...(failures.length > 0 ? (['failed'] as const) : []),
    ...reports.map(({ status }) => status),
  ])
  const sum = <Part extends object>(of: (report: RunReport) => Part): Part => sumParts(reports.map(of))
  const list = <Item>(of: (report: RunReport) => readonly Item[] | undefined): Item[] => [
    ...new Set(reports.flatMap((report) => of(report) ?? [])),
  ]
  const unread = list((report) => report.unread_sources)
  const unreadOverBudget = list((report) => report.unread_over_budget)
  const cancelled = reports.find((report) => report.cancelled_by !== undefined)
  const leftOut = new Map(reports.flatMap((report) => report.left_out ?? []).map((one) => [one.source, one]))
  return {
    ...first,
    run: ended[0]?.run ?? first.run,
    status: BY_SEVERITY.find((one) => statuses.has(one)) ?? 'completed',
    reason: [...failures, ...reasons].join('; ') || null,
    ...(cancelled?.cancelled_by !== undefined && { cancelled_by: cancelled.cancelled_by }),
    rows: sum((report) => report.rows),
    ...(first.rows_by_source && { rows_by_source: mergeBySource(reports) }),
    skipped_over_budget: reports.reduce((total, one) => total + one.skipped_over_budget, 0),
    ...(unreadOverBudget.length > 0 && { unread_over_budget: unreadOverBudget }),
    ...(unread.length > 0 && { unread_sources: unread }),
    ...(leftOut.size > 0 && { left_out: [...leftOut.values()] }),
    lookups: sum((report) => report.lookups),
    requests: sum((report) => report.requests),
    spend: {
      ...sum(({ spend }) => ({ ...spend, cost: 0 })),
      cost: sumCosts(reports.map(({ spend }) => spend.cost)),
    },
    jobs: sum((report) => report.jobs),
    cells: sum((report) => report.cells),
    skipped_cells: mergeSkippedGroups(reports.flatMap((report) => report.skipped_cells)),
    duration_ms: Math.max(...reports.map((report) => report.duration_ms)),
    ...(first.dry_run && {
      dry_run: {
        columns: mergeColumns(reports.flatMap((report) => report.dry_run?.columns ?? [])),
        sample: reports.flatMap((report) => report.dry_run?.sample ?? []),
      },
    }),
    services: ended.flatMap(({ service, report }) =>
      report === null
        ? []
        : {
            service,
            run: report.run,
            status: report.status,
            reason: report.reason,
            rows: report.rows.picked,
            lookups: report.lookups,
            spend: report.spend,
            cells: report.cells,
            rate: report.rate,
          },
    ),
  }
}

/** Adds objects of numbers up, field by field. */
function sumParts<Part extends object>(parts: readonly Part[]): Part {
  const total = new Map<string, number>()
  for (const part of parts)
    for (const [name, value] of Object.entries(part as Readonly<Record<string, number>>))
      total.set(name, (total.get(name) ?? 0) + value)
  return Object.fromEntries(total) as Part
}

function mergeColumns(columns: DryRunReport['columns']): DryRunReport['columns'] {
  const merged = new Map<string, DryRunReport['columns'][number]>()
  for (const one of columns) {
    const name = JSON.stringify([one.source, one.column])
    merged.set(name, { ...one, written: one.written + (merged.get(name)?.written ?? 0) })
  }
  return [...merged.values()]
}

function mergeBySource(reports: readonly RunReport[]): NonNullable<RunReport['rows_by_source']> {
  const names = new Set(reports.flatMap((report) => Object.keys(report.rows_by_source ?? {})))
  return Object.fromEntries(
    [...names].map((name) => [
      name,
      sumParts(reports.flatMap((report) => report.rows_by_source?.[name] ?? [])),
    ]),
  )
}
