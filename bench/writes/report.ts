import { median } from '../throughput/table.ts'

/** What one run has cost. */
export interface Writes {
  readonly rows: number
  readonly route: string
  readonly rowsPerSecond: number
  readonly nodeCpuMs: number
  /** Of all of Postgres's processes; null where there is no /proc. */
  readonly postgresCpuMs: number | null
  readonly walBytes: number
  /** The WAL of each table and index. `imageBytes`: of these, images of pages that were changed for the first time. */
  readonly relations: readonly {
    readonly name: string
    readonly records: number
    readonly walBytes: number
    readonly imageBytes: number
  }[]
  /** Statements that the process has sent, BEGIN and COMMIT included. */
  readonly sentStatements: number
  /** By statement, the dearest first. Milliseconds, planning included. */
  readonly statements: readonly {
    readonly calls: number
    readonly ms: number
    /** Of these for planning. */
    readonly planMs: number
    readonly rows: number
    readonly walBytes: number
    readonly query: string
  }[]
  readonly tables: readonly {
    readonly name: string
    readonly inserted: number
    readonly updated: number
    readonly hot: number
    readonly deleted: number
    readonly bytes: number
  }[]
  readonly checksum: string
}

/** One measurement: its sums a row, the dearest statements and what happened to each table. Pure. */
export function describeWrites(writes: Writes): string {
  const { rows, statements, tables } = writes
  const ofRow = (value: number): string => (value / rows).toFixed(2)
  return [
    `${rows.toLocaleString('en')} rows by ${writes.route}, ${Math.round(writes.rowsPerSecond).toLocaleString('en')} rows/s`,
    `WAL ${Math.round(writes.walBytes / rows)} bytes a row; ${((writes.sentStatements * 1_000) / rows).toFixed(1)} statements for 1,000 rows`,
    `CPU a row: Postgres ${microseconds(writes.postgresCpuMs, rows)}, Node ${microseconds(writes.nodeCpuMs, rows)}`,
    '',
    'µs a row  planning  WAL a row  calls  statement',
    ...statements.slice(0, 24).map(
      ({ ms, planMs, walBytes, calls, query }) =>
        `${((ms * 1_000) / rows).toFixed(1).padStart(8)}  ${((planMs * 1_000) / rows).toFixed(1).padStart(8)}  ${Math.round(
          walBytes / rows,
        )
          .toString()
          .padStart(9)}  ${String(calls).padStart(5)}  ${query.slice(0, 120)}`,
    ),
    '',
    'calls  the most frequent statements',
    ...statements
      .toSorted((a, b) => b.calls - a.calls)
      .slice(0, 16)
      .map(({ calls, query }) => `${String(calls).padStart(5)}  ${query.slice(0, 120)}`),
    '',
    'WAL a row  images  records a row  table or index',
    ...writes.relations.slice(0, 24).map(
      ({ name, walBytes, imageBytes, records }) =>
        `${Math.round(walBytes / rows)
          .toString()
          .padStart(9)}  ${Math.round(imageBytes / rows)
          .toString()
          .padStart(6)}  ${ofRow(records).padStart(13)}  ${name}`,
    ),
    '',
    'inserted  updated  of these HOT  deleted   MiB  table (versions a row)',
    ...tables.map(
      (table) =>
        `${ofRow(table.inserted).padStart(8)}  ${ofRow(table.updated).padStart(7)}  ${share(table.hot, table.updated).padStart(12)}  ` +
        `${ofRow(table.deleted).padStart(7)}  ${(table.bytes / 2 ** 20).toFixed(1).padStart(4)}  ${table.name}`,
    ),
  ].join('\n')
}

/** This tree beside another: the medians, and of the times the median of the ratios within each round. Pure. */
export function describeComparison(
  pairs: readonly { readonly here: Writes; readonly other: Writes }[],
): string {
  const line = (title: string, of: (writes: Writes) => number): string => {
    const [other, here] = [
      median(pairs.map((pair) => of(pair.other))),
      median(pairs.map((pair) => of(pair.here))),
    ]
    const ratio = median(pairs.map((pair) => of(pair.here) / of(pair.other)))
    return `${title.padEnd(32)} ${other.toFixed(1).padStart(9)} ${here.toFixed(1).padStart(9)}  ${ratio.toFixed(2)}×`
  }
  return [
    `${`${pairs.length} rounds`.padEnd(32)} ${'other'.padStart(9)} ${'this'.padStart(9)}`,
    line('WAL, bytes a row', (one) => one.walBytes / one.rows),
    line('statements for 1,000 rows', (one) => (one.sentStatements * 1_000) / one.rows),
    line('CPU of Postgres, µs a row', (one) => ((one.postgresCpuMs ?? Number.NaN) * 1_000) / one.rows),
    line('CPU of Node, µs a row', (one) => (one.nodeCpuMs * 1_000) / one.rows),
    line('rows a second', (one) => one.rowsPerSecond),
  ].join('\n')
}

const microseconds = (ms: number | null, rows: number): string =>
  ms === null ? 'unknown' : `${Math.round((ms * 1_000) / rows)} µs`

const share = (part: number, whole: number): string =>
  whole === 0 ? '–' : `${Math.round((100 * part) / whole)}%`
