import { parseArgs } from 'node:util'
import { startEmbeddedPostgres } from '../../test/support/embedded-postgres.ts'
import { startSandboxProcess } from '../throughput/sandbox.ts'
import { measureScale, type ScaleMeasurement } from './measure.ts'
import { scaleTable } from './table.ts'

const USAGE = `npm run bench:scale -- [--rows 10000,1000000] [--rounds 3] [--enriched 20000]

What a table of this size costs when next to nothing is to be done, beside the one statement that finds the same rows.
Prints Markdown for docs/internals/performance.md on standard output, and progress on standard error. Measures the built package:
run \`npm run build\` first.

  --rows N,…    sizes of the table (10,000 and 1,000,000); 10,000,000 need 30 GB of disk
  --rounds N    how often each command runs; the median counts (3)
  --enriched N  rows of a first pass in bulk, on an empty database and after those of the table (20,000)
  --set NAME=V  a Postgres setting; can be repeated (default: Postgres's own settings)`

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '10000,1000000' },
    rounds: { type: 'string', default: '3' },
    enriched: { type: 'string', default: '20000' },
    set: { type: 'string', multiple: true, default: [] },
    help: { type: 'boolean', default: false },
  },
})

if (values.help) console.log(USAGE)
else await bench()

async function bench(): Promise<void> {
  const sandbox = await startSandboxProcess()
  const measurements: ScaleMeasurement[] = []
  try {
    for (const rows of values.rows.split(',').map((text) => Number(text.replaceAll('_', '')))) {
      // A server of its own for each size: the statistics and the cache of one must not help the next.
      const server = await startEmbeddedPostgres(values.set)
      try {
        await sandbox.begin(0)
        measurements.push(
          await measureScale(server.url, sandbox.service, {
            rows,
            rounds: Number(values.rounds),
            enriched: Number(values.enriched),
          }),
        )
      } finally {
        await server.stop()
      }
    }
  } finally {
    await sandbox.stop()
  }
  console.log(scaleTable(measurements))
}
