import { parseArgs } from 'node:util'
import { startCrashableServer } from '../chaos/crashable-server.ts'
import { fuzzCase } from './case.ts'

// `npm run fuzz`: random tables, types, records, policies, settings and edits, compared with Postgres's own casts.

const USAGE = `npm run fuzz -- [--minutes 5] [--seed N] [--cases N]

  --minutes N  time limit in minutes (5)
  --seed N     the first seed; repeat a failed case with --cases 1
  --cases N    stop after N cases`

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '5' },
    seed: { type: 'string' },
    cases: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) {
  console.log(USAGE)
  process.exit(0)
}
const endsAt = performance.now() + Number(values.minutes) * 60_000
const maxCases = Number(values.cases ?? Number.POSITIVE_INFINITY)
const server = await startCrashableServer()
let seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31))
let started = 0
let databases = 0
let cells = 0
const failed: string[] = []
console.error(`from seed ${seed}`)
/** More than the cores, because cases wait for Postgres most of the time. */
const CONCURRENCY = 3
const next = async (): Promise<void> => {
  while (started < maxCases && performance.now() < endsAt) {
    started++
    const one = seed++
    try {
      cells += await fuzzCase(server.url, one)
    } catch (error) {
      failed.push((error as Error).message)
      console.error((error as Error).message)
    }
    databases++
  }
}
await Promise.all(Array.from({ length: CONCURRENCY }, next))
await server.stop()
console.log(
  `${databases} databases, ${cells} cells compared with the oracle, ${failed.length} databases differ` +
    (failed.length > 0 ? '; repeat one with: npm run fuzz -- --cases 1 --seed N' : ''),
)
process.exitCode = failed.length > 0 ? 1 : 0
