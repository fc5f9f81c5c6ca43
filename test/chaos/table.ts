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

/** Adds the damage of one more time to a line. */
export function add(
  line: Line,
  one: Damage & { readonly times: number; readonly failed?: string | null },
): Line {
  return {
    fault: line.fault,
    times: line.times + one.times,
    rowsLost: line.rowsLost + one.rowsLost,
    recordsLost: line.recordsLost + one.recordsLost,
    paidTwice: line.paidTwice + one.paidTwice,
    cellsWrong: line.cellsWrong + one.cellsWrong,
    otherwise: line.otherwise + one.otherwise,
    inDoubt: line.inDoubt + one.inDoubt,
    failed: line.failed ?? one.failed ?? null,
  }
}

export const newLine = (fault: string): Line => ({
  fault,
  times: 0,
  rowsLost: 0,
  recordsLost: 0,
  paidTwice: 0,
  cellsWrong: 0,
  otherwise: 0,
  inDoubt: 0,
  failed: null,
})
