import type { InvariantReport } from './invariants.ts'

/** One row of the report: a fault, how often it was injected, and its violations in all. */
export interface ReportRow extends InvariantReport {
  readonly fault: string
  readonly times: number
  /** Why it failed; null if it did not. */
  readonly failed: string | null
}

const COLUMNS = [
  ['times made', (row: ReportRow) => row.times],
  ['rows lost', (row: ReportRow) => row.rowsLost],
  ['records lost', (row: ReportRow) => row.recordsLost],
  ['paid twice', (row: ReportRow) => row.paidTwice],
  ['cells wrong', (row: ReportRow) => row.cellsWrong],
  ['in doubt', (row: ReportRow) => row.inDoubt],
] as const

export function renderReport(rows: readonly ReportRow[]): string {
  const width = Math.max(...rows.map((row) => row.fault.length))
  const head = ['fault'.padEnd(width), ...COLUMNS.map(([title]) => title)].join('  ')
  const body = rows.map((row) =>
    [
      row.fault.padEnd(width),
      ...COLUMNS.map(([title, value]) => value(row).toLocaleString('en').padStart(title.length)),
      row.failed === null ? '' : `  FAILED: ${row.failed}`,
    ].join('  '),
  )
  return [head, '-'.repeat(head.length), ...body].map((line) => line.trimEnd()).join('\n')
}

/** A report row that adds up the results of several trials. */
export class FaultTally implements ReportRow {
  readonly fault: string
  times = 0
  rowsLost = 0
  recordsLost = 0
  paidTwice = 0
  cellsWrong = 0
  otherFaults = 0
  inDoubt = 0
  failed: string | null = null

  constructor(fault: string) {
    this.fault = fault
  }

  /** Adds the result of one trial. */
  add(report: InvariantReport, times: number): void {
    this.times += times
    this.rowsLost += report.rowsLost
    this.recordsLost += report.recordsLost
    this.paidTwice += report.paidTwice
    this.cellsWrong += report.cellsWrong
    this.otherFaults += report.otherFaults
    this.inDoubt += report.inDoubt
  }

  fail(reason: string | null): void {
    this.failed ??= reason
  }
}
