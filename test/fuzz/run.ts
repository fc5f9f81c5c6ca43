import { parseArgs } from 'node:util'
import { startCrashableServer } from '../chaos/crashable-server.ts'
import { fuzzCase } from './case.ts'

// `npm run fuzz`: random tables, types, records, policies, settings and edits, held against Postgres's own casts.

const USAGE = `npm run fuzz -- [--minutes 5] [--seed N] [--cases N]

  --minutes N  ends after so long (5)
  --seed N     begins with this case: one that failed is played again with --cases 1
  --cases N    ends after so many`

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
const most = Number(values.cases ?? Number.POSITIVE_INFINITY)
const server = await startCrashableServer()
let seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31))
let begun = 0
let databases = 0
let cells = 0
const failed: string[] = []
console.error(`from seed ${seed}`)
/** Cases wait for Postgres most of the time. */
const AT_ONCE = 3
const next = async (): Promise<void> => {
  while (begun < most && performance.now() < endsAt) {
    begun++
    const one = seed++
    try {
      const held = await fuzzCase(server.url, one)
      cells += held.cells
    } catch (error) {
      failed.push((error as Error).message)
      console.error((error as Error).message)
    }
    databases++
  }
}
await Promise.all(Array.from({ length: AT_ONCE }, next))
await server.stop()
console.log(
  `${databases} databases, ${cells} cells held against the oracle, ${failed.length} databases that differ` +
    (failed.length > 0 ? '; play one again with: npm run fuzz -- --cases 1 --seed N' : ''),
)
process.exitCode = failed.length > 0 ? 1 : 0
