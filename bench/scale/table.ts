import { COMMANDS, type CommandName, type ScaleMeasurement } from './measure.ts'

/** A Markdown table: one column a size. */
export function scaleTable(measurements: readonly ScaleMeasurement[]): string {
  const line = (name: string, value: (measurement: ScaleMeasurement) => string): string =>
    `| ${[name, ...measurements.map(value)].join(' | ')} |`
  const commands = Object.keys(COMMANDS) as CommandName[]
  return [
    line('', ({ rows }) => `${rows.toLocaleString('en')} rows`),
    `| --- |${measurements.map(() => ' ---: |').join('')}`,
    line('the one statement (floor)', ({ floorMs }) => seconds(floorMs)),
    ...commands.map((name) =>
      line(COMMANDS[name], (measurement) => {
        const { ms } = measurement.commands[name]
        return `${seconds(ms)} (${(ms / measurement.floorMs).toFixed(1)}× the floor)`
      }),
    ),
    line('dashboard, first page', ({ dashboardMs }) => seconds(dashboardMs)),
    line('first pass in bulk over an empty database', ({ firstRowsPerSecond }) =>
      perSecond(firstRowsPerSecond),
    ),
    line(
      'the same over rows that follow those of the table',
      ({ firstRowsPerSecond, lastRowsPerSecond }) =>
        `${perSecond(lastRowsPerSecond)} (${(lastRowsPerSecond / firstRowsPerSecond).toFixed(2)}×)`,
    ),
    line('claim of 32 lookups, p50', ({ claim }) => `${claim.p50Ms.toFixed(1)} ms`),
    line('claim of 32 lookups, p99', ({ claim }) => `${claim.p99Ms.toFixed(1)} ms`),
    line('peak memory of the idle run', ({ commands: { idle } }) => megabytes(idle.peakBytes)),
    line('the table on disk', ({ tableBytes }) => megabytes(tableBytes)),
    line('the schema fillrate on disk', ({ fillrateBytes }) => megabytes(fillrateBytes)),
  ].join('\n')
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(2)} s`
const perSecond = (rows: number): string => `${Math.round(rows).toLocaleString('en')} rows/s`
const megabytes = (bytes: number): string => `${Math.round(bytes / 1024 / 1024).toLocaleString('en')} MiB`
