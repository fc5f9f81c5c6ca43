import { cpus, loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { startEmbeddedPostgres } from '../../test/support/embedded-postgres.ts'
import { measureLatency, type Latencies, type Scenario } from './latency.ts'
import { measureTriggers, type TriggerCost } from './trigger-cost.ts'

const USAGE = `npx node bench/sync/run.ts [--rows 5000] [--rate 50] [--only follow,kills,backfill,triggers]

  --rows N      rows inserted into the table (5,000)
  --rate N      rows a second (50)
  --latency MS  latency of the service (100)
  --backfill N  rows of a concurrent backfill (20,000)
  --rounds N    timings of each statement, with and without triggers (5)
  --only NAME,… only these of follow, kills, backfill and triggers`

/** Measures how soon a change is enriched, and the cost of the triggers. Prints Markdown for docs/internals/performance.md. */
const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '5000' },
    rate: { type: 'string', default: '50' },
    latency: { type: 'string', default: '100' },
    backfill: { type: 'string', default: '20000' },
    rounds: { type: 'string', default: '5' },
    only: { type: 'string', default: 'follow,kills,backfill,triggers' },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) console.log(USAGE)
else await bench()

async function bench(): Promise<void> {
  const only = values.only.split(',')
  const common = { rows: whole(values.rows), rate: whole(values.rate), latencyMs: whole(values.latency) }
  const scenarios: Scenario[] = [
    { ...common, name: 'follow', kills: 0, backfill: 0 },
    { ...common, name: 'kills', kills: 3, backfill: 0 },
    { ...common, name: 'backfill', kills: 0, backfill: whole(values.backfill) },
  ]
  // Default settings, but with the time of each commit recorded.
  const server = await startEmbeddedPostgres(['track_commit_timestamp=on'])
  try {
    console.log(`${cpus().length} cores, load ${loadavg()[0]?.toFixed(1)}, Node ${process.version}\n`)
    const measured: Latencies[] = []
    for (const scenario of scenarios.filter((one) => only.includes(one.name))) {
      const one = await measureLatency(server.url, scenario)
      console.error(`${scenario.name}: ${JSON.stringify(one)}`)
      measured.push(one)
    }
    if (measured.length > 0) console.log(`${latencyTable(measured)}\n`)
    if (!only.includes('triggers')) return
    for (const indexed of [false, true]) {
      const costs = await measureTriggers(server.url, {
        rows: 100_000,
        rounds: whole(values.rounds),
        indexed,
      })
      console.log(`${indexed ? 'A table with two more indexes' : 'A table with only its primary key'}:\n`)
      console.log(`${costTable(costs)}\n`)
    }
  } finally {
    await server.stop()
  }
}

function latencyTable(measured: readonly Latencies[]): string {
  const names: Readonly<Record<string, string>> = {
    follow: 'no other load',
    kills: 'the daemon killed and restarted three times',
    backfill: 'a concurrent backfill',
  }
  return table(
    ['', 'rows', 'missed', 'p50', 'p95', 'p99', 'max', 'requested twice'],
    measured.map((one) => [
      names[one.scenario.name] ?? one.scenario.name,
      one.scenario.rows.toLocaleString('en'),
      String(one.missed),
      ...[one.p50, one.p95, one.p99, one.max].map((ms) => `${(ms / 1_000).toFixed(2)} s`),
      one.maxRequests > 1 ? 'some' : 'none',
    ]),
  )
}

function costTable(costs: readonly TriggerCost[]): string {
  return table(
    ['', 'without', 'with', 'ratio'],
    costs.map(({ statement, withoutMs, withMs, ratio }) => [
      statement,
      `${Math.round(withoutMs)} ms`,
      `${Math.round(withMs)} ms`,
      `${ratio.toFixed(2)}×`,
    ]),
  )
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map((_, n) => (n === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n')
}

function whole(text: string): number {
  const number = Number(text)
  if (Number.isInteger(number) && number > 0) return number
  throw new Error(`"${text}" found, a whole number above zero expected`)
}
