import type { Damage } from './damage.ts'

/** One line of the table: a fault, how often it was made, and what it cost in all. */
export interface Line extends Damage {
  readonly fault: string
  readonly times: number
  /** Ended otherwise than it should. */
  readonly failed: string | null
}

const COLUMNS = [
  ['times made', (line: Line) => line.times],
  ['rows lost', (line: Line) => line.rowsLost],
  ['records lost', (line: Line) => line.recordsLost],
  ['paid twice', (line: Line) => line.paidTwice],
  ['cells wrong', (line: Line) => line.cellsWrong],
  ['in doubt', (line: Line) => line.inDoubt],
] as const

export function tableOf(lines: readonly Line[]): string {
  const width = Math.max(...lines.map((line) => line.fault.length))
  const head = ['fault'.padEnd(width), ...COLUMNS.map(([title]) => title)].join('  ')
  const body = lines.map((line) =>
    [
      line.fault.padEnd(width),
      ...COLUMNS.map(([title, of]) => of(line).toLocaleString('en').padStart(title.length)),
      line.failed === null ? '' : `  FAILED: ${line.failed}`,
    ].join('  '),
  )
  return [head, '-'.repeat(head.length), ...body].map((line) => line.trimEnd()).join('\n')
}

/** A line that grows. */
export class Growing implements Line {
  readonly fault: string
  times = 0
  rowsLost = 0
  recordsLost = 0
  paidTwice = 0
  cellsWrong = 0
  otherwise = 0
  inDoubt = 0
  failed: string | null = null

  constructor(fault: string) {
    this.fault = fault
  }

  /** The damage of one more time. */
  add(one: Damage, times: number): void {
    this.times += times
    this.rowsLost += one.rowsLost
    this.recordsLost += one.recordsLost
    this.paidTwice += one.paidTwice
    this.cellsWrong += one.cellsWrong
    this.otherwise += one.otherwise
    this.inDoubt += one.inDoubt
  }

  fail(reason: string | null): void {
    this.failed ??= reason
  }
}
