import { parseArgs } from 'node:util'
import { cloneDatabase } from '../support/clone.ts'
import { isUnharmed } from './damage.ts'
import { prepareGround, type Ground } from './ground.ts'
import { killAt } from './kill.ts'
import { checkSequences } from './model/property.ts'
import { pause } from './pause.ts'
import { hasPgBouncer } from './pgbouncer.ts'
import * as faults from './postgres-faults.ts'
import type { Survived } from './postgres-faults.ts'
import { deliveryFaults } from './service-faults.ts'
import { startOwnServer } from './server.ts'
import { Growing, tableOf } from './table.ts'

// `npm run chaos`: makes every fault that can be made on one machine, and tells in a table what each has cost.

const USAGE = `npm run chaos -- [--minutes 10] [--sequences 100000] [--every 1] [--only kill,database,pause,service,model]

  --minutes N    ends after so long, whatever is left (10)
  --sequences N  random sequences held against the model (100,000)
  --every N      kills at every N-th of the points (1)
  --only NAME,…  only these`

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    sequences: { type: 'string', default: '100000' },
    every: { type: 'string', default: '1' },
    only: { type: 'string', default: 'kill,database,pause,service,model' },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) {
  console.log(USAGE)
  process.exit(0)
}
const only = new Set(values.only.split(','))
const began = performance.now()
const endsAt = began + Number(values.minutes) * 60_000
const isOver = (): boolean => performance.now() > endsAt
const lines: Growing[] = []
const say = (text: string): void =>
  console.error(`${Math.round((performance.now() - began) / 1000)} s  ${text}`)

/** One line of the table, out of as many times as `once` is done. */
async function tell(fault: string, times: number, once: () => Promise<Survived>): Promise<void> {
  const line = new Growing(fault)
  for (let n = 0; n < times && !isOver(); n++)
    await once().then(
      (survived) => {
        line.add(survived, survived.times)
        line.fail(failureOf(survived))
      },
      (error: unknown) => line.fail(String(error)),
    )
  lines.push(line)
  say(`${fault}: ${line.times} times${line.failed === null ? '' : `, FAILED: ${line.failed}`}`)
}

const failureOf = (survived: Survived): string | null =>
  survived.code === 0 || survived.code === null
    ? isUnharmed(survived)
      ? null
      : 'see the figures'
    : `ended with ${survived.code}: ${survived.stderr.split('\n').slice(-8).join(' | ')}`

async function killEverywhere(ground: Ground): Promise<void> {
  const groups = new Map<string, string[]>()
  ground.points.forEach((point, n) => {
    if (n % Number(values.every) > 0) return
    const [when = '', what = ''] = /^(before|after|on the wire) (.*)$/.exec(point)?.slice(1) ?? []
    const kind = /^(POST|GET)/.test(what)
      ? 'a call'
      : what.startsWith('commit')
        ? 'a commit'
        : what === 'delivery'
          ? 'a delivery'
          : 'a statement'
    const name = when === 'on the wire' ? 'killed with a call on the wire' : `killed ${when} ${kind}`
    groups.set(name, [...(groups.get(name) ?? []), point])
  })
  // What costs most when it goes wrong comes first, in case the time runs out.
  const byCost = [...groups].toSorted(
    ([a], [b]) => Number(a.endsWith('statement')) - Number(b.endsWith('statement')),
  )
  for (const [name, points] of byCost) {
    const line = new Growing(name)
    const queue = [...points]
    const worker = async (): Promise<void> => {
      for (let point = queue.shift(); point !== undefined && !isOver(); point = queue.shift()) {
        const at = point
        await killAt(ground, at).then(
          (killed) => {
            line.add(killed, killed.made ? 1 : 0)
            if (!isUnharmed(killed)) line.fail(`at ${at}`)
          },
          (error: unknown) => line.fail(`${at}: ${String(error)}`),
        )
      }
    }
    await Promise.all([worker(), worker(), worker()])
    lines.push(line)
    say(
      `${name}: ${line.times} of ${points.length} points${line.failed === null ? '' : `, FAILED: ${line.failed}`}`,
    )
  }
}

async function sequences(server: string): Promise<void> {
  const database = await cloneDatabase(server)
  const WORLDS = 500
  const line = new Growing('random sequences against the model')
  try {
    while (line.times < Number(values.sequences) && !isOver())
      await checkSequences({ database, worlds: WORLDS, batches: 1, onBatch: () => (line.times += WORLDS) })
  } catch (error) {
    line.fail(String((error as Error).cause ?? error))
  }
  lines.push(line)
  say(`${line.times} sequences${line.failed === null ? '' : `, FAILED: ${line.failed}`}`)
  await database.drop()
}

const server = await startOwnServer()
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void server.stop().finally(() => process.exit(130)))
try {
  const ground = await prepareGround(server.url)
  say(`prepared; ${ground.points.length} points at which a run can be killed`)
  if (only.has('database')) {
    await tell('Postgres crashes and starts again', 3, () => faults.crash(ground, server))
    await tell('connections ended, again and again', 3, () => faults.terminate(ground))
    await tell('the database takes no writes for a while', 3, () => faults.readOnly(ground))
    await tell('all connections go silent', 3, () => faults.silence(ground, 1_000))
    await tell('deadlocks', 2, () => faults.collide(ground, '40P01'))
    await tell('serialization failures', 2, () => faults.collide(ground, '40001'))
    await tell('people lock rows and tables', 3, () => faults.lockedRows(ground))
    await tell('a slow table', 2, () => faults.slowTable(ground))
    await tell('no room on the disk', 2, () => faults.collide(ground, '53100'))
    if (hasPgBouncer())
      await tell('behind PgBouncer in transaction mode', 2, () => faults.behindPgBouncer(ground))
    else say('PgBouncer is not installed here: left out')
  }
  if (only.has('pause')) await tell('paused past its leases, then woken', 3, () => pause(ground))
  if (only.has('service')) for (const [fault, once] of deliveryFaults(ground)) await tell(fault, 1, once)
  if (only.has('kill')) await killEverywhere(ground)
  if (only.has('model')) await sequences(server.url)
  await ground.remove()
} finally {
  await server.stop()
}
console.log(tableOf(lines))
const minutes = ((performance.now() - began) / 60_000).toFixed(1)
console.log(
  `\n${minutes} minutes. In doubt: calls on the wire of a process that died, counted and not hidden.`,
)
process.exitCode = lines.some((line) => line.failed !== null) ? 1 : 0
