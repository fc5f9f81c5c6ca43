import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { cloneDatabase } from '../support/clone.ts'
import bundleOnce from '../support/program-setup.ts'
import { createTemplate } from '../support/server.ts'
import { holdsInvariants } from './invariants.ts'
import { prepareFixture, type ChaosFixture, type KillPoint } from './fixture.ts'
import { SEVERAL_SERVICES } from './scenario.ts'
import { COMMANDS, prepareCommand } from './command-faults.ts'
import { killAt, pauseProcess, type KillResult } from './process-faults.ts'
import { checkSequences } from './model/property.ts'
import { hasPgBouncer } from './pgbouncer.ts'
import * as faults from './postgres-faults.ts'
import type { FaultResult } from './postgres-faults.ts'
import { deliveryFaults } from './service-faults.ts'
import { startCrashableServer } from './crashable-server.ts'
import { FaultTally, renderReport } from './report.ts'

// `npm run chaos`: injects every fault that one machine allows, and prints what each has cost.

const USAGE = `npm run chaos -- [--minutes 10] [--sequences 100000] [--every 1] [--only kill,command,several,database,pause,service,model]

  --minutes N    time limit in minutes (10)
  --sequences N  random sequences to compare with the model (100,000)
  --every N      kill at every Nth point (1)
  --only NAME,…  run only these; several: kills of a run with three services, and of commands after it
  --server URL   make the kills on this Postgres`

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    sequences: { type: 'string', default: '100000' },
    every: { type: 'string', default: '1' },
    only: { type: 'string', default: 'kill,command,several,database,pause,service,model' },
    server: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) {
  console.log(USAGE)
  process.exit(0)
}
const only = new Set(values.only.split(','))
const startedAt = performance.now()
const endsAt = startedAt + Number(values.minutes) * 60_000
const isOver = (): boolean => performance.now() > endsAt
const tallies: FaultTally[] = []
const log = (text: string): void =>
  console.error(`${Math.round((performance.now() - startedAt) / 1000)} s  ${text}`)

/** Runs `trial` several times, as one row of the report. */
async function repeat(fault: string, times: number, trial: () => Promise<FaultResult>): Promise<void> {
  const tally = new FaultTally(fault)
  for (let n = 0; n < times && !isOver(); n++)
    await trial().then(
      (result) => {
        tally.add(result, result.faults)
        tally.fail(failureOf(result))
      },
      (error: unknown) => tally.fail(String(error)),
    )
  tallies.push(tally)
  log(`${fault}: ${tally.times} times${tally.failed === null ? '' : `, FAILED: ${tally.failed}`}`)
}

const failureOf = (result: FaultResult): string | null =>
  result.code === 0 || result.code === null
    ? holdsInvariants(result)
      ? null
      : 'see the figures'
    : `exited with ${result.code}: ${result.stderr.split('\n').slice(-8).join(' | ')}`

async function killEverywhere(fixture: ChaosFixture): Promise<void> {
  const ofSeveral = fixture.scenario.services === null ? '' : ', three services in order'
  const groups = Map.groupBy(fixture.points, ({ name }) => {
    const [when = '', what = ''] = /^(before|after|on the wire) (.*)$/.exec(name)?.slice(1) ?? []
    const kind = /^(?:[A-Z]+ )?(POST|GET) /.test(what)
      ? 'a call'
      : what.startsWith('commit')
        ? 'a commit'
        : what === 'delivery'
          ? 'a delivery'
          : 'a statement'
    return when === 'on the wire' ? 'killed with a call on the wire' : `killed ${when} ${kind}`
  })
  // The costliest points come first, in case the time runs out.
  const byCost = [...groups].toSorted(
    ([a], [b]) => Number(a.endsWith('statement')) - Number(b.endsWith('statement')),
  )
  for (const [name, points] of byCost)
    await killAtEach(
      `${name}${ofSeveral}`,
      points.flatMap((point) => listTimes(fixture, point)),
      ({ name: point, nth }) => killAt(fixture, point, nth),
    )
}

interface NthKill {
  readonly name: string
  readonly nth: number
}

/** Several services pass the same steps: the first time is that of the first one, those in the middle are of those after it. */
const listTimes = ({ scenario }: ChaosFixture, { name, times }: KillPoint): NthKill[] =>
  (scenario.services === null
    ? [1]
    : [...new Set([1, Math.ceil(times / 3), Math.ceil((2 * times) / 3)])]
  ).map((nth) => ({ name, nth }))

async function killCommands(fixture: ChaosFixture): Promise<void> {
  const ofSeveral = fixture.scenario.services === null ? '' : ', three services in order'
  for (const name of Object.keys(COMMANDS)) {
    if (isOver()) return
    const command = await prepareCommand(fixture, name)
    await killAtEach(
      `\`${name}\` killed, and given again${ofSeveral}`,
      command.points.map((point) => ({ name: point.name, nth: 1 })),
      (point) => command.kill(point.name),
    )
  }
}

async function killAtEach(
  fault: string,
  all: readonly NthKill[],
  kill: (point: NthKill) => Promise<KillResult>,
): Promise<void> {
  const points = all.filter((_, n) => n % Number(values.every) === 0)
  const tally = new FaultTally(fault)
  const queue = [...points]
  const worker = async (): Promise<void> => {
    for (let point = queue.shift(); point !== undefined && !isOver(); point = queue.shift()) {
      const { name, nth } = point
      await kill(point).then(
        (killed) => {
          tally.add(killed, killed.wasKilled ? 1 : 0)
          if (holdsInvariants(killed)) return
          tally.fail(`at ${name}, the ${nth}th time: ${JSON.stringify(killed)}`)
          log(`${name} ${nth}: ${JSON.stringify(killed)}`)
        },
        (error: unknown) => tally.fail(`${name}, the ${nth}th time: ${String(error)}`),
      )
    }
  }
  await Promise.all([worker(), worker(), worker()])
  tallies.push(tally)
  log(
    `${fault}: ${tally.times} of ${points.length} points${tally.failed === null ? '' : `, FAILED: ${tally.failed}`}`,
  )
}

async function sequences(server: string): Promise<void> {
  const database = await cloneDatabase(server)
  const WORLDS = 500
  const tally = new FaultTally('random sequences against the model')
  try {
    while (tally.times < Number(values.sequences) && !isOver())
      await checkSequences({ database, worlds: WORLDS, batches: 1, onBatch: () => (tally.times += WORLDS) })
  } catch (error) {
    tally.fail(String((error as Error).message))
  }
  tallies.push(tally)
  log(`${tally.times} sequences${tally.failed === null ? '' : `, FAILED: ${tally.failed}`}`)
  await database.drop()
}

// Every trial starts the program: bundled, and with its compiled code cached.
process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, '../../node_modules/.cache/compiled')
const removeBundle = await bundleOnce()
const server = values.server === undefined ? await startCrashableServer() : null
if (values.server !== undefined) await createTemplate(values.server)
const url = values.server ?? server?.url ?? ''
const cleanUp = (): Promise<unknown> => Promise.all([server?.stop(), removeBundle()])
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void cleanUp().finally(() => process.exit(130)))
try {
  const fixture = await prepareFixture(url)
  log(`prepared; ${fixture.points.length} points at which a run can be killed`)
  if (only.has('database')) {
    if (server)
      await repeat('Postgres crashes and starts again', 3, () => faults.crashPostgres(fixture, server))
    await repeat('connections ended, repeatedly', 3, () => faults.endConnections(fixture))
    await repeat('the database is read-only for a while', 3, () => faults.makeReadOnly(fixture))
    await repeat('all connections freeze', 3, () => faults.freezeConnections(fixture, 1_000))
    await repeat('deadlocks', 2, () => faults.failWrites(fixture, '40P01'))
    await repeat('serialization failures', 2, () => faults.failWrites(fixture, '40001'))
    await repeat('users lock rows and tables', 3, () => faults.lockSource(fixture))
    await repeat('a slow table', 2, () => faults.slowDownSource(fixture))
    await repeat('disk full', 2, () => faults.failWrites(fixture, '53100'))
    if (hasPgBouncer())
      await repeat('behind PgBouncer in transaction mode', 2, () => faults.runBehindPgBouncer(fixture))
    else log('PgBouncer is not installed: skipped')
  }
  if (only.has('pause')) await repeat('paused past its leases, then resumed', 3, () => pauseProcess(fixture))
  if (only.has('service')) for (const [fault, trial] of deliveryFaults(fixture)) await repeat(fault, 1, trial)
  if (only.has('command')) await killCommands(fixture)
  if (only.has('kill')) await killEverywhere(fixture)
  await fixture.remove()
  if (only.has('several')) {
    const several = await prepareFixture(url, SEVERAL_SERVICES)
    const { length } = several.points.flatMap((point) => listTimes(several, point))
    log(`prepared three services; ${length} points`)
    await repeat('paused past its leases, then resumed, three services in order', 3, () =>
      pauseProcess(several),
    )
    await killCommands(several)
    await killEverywhere(several)
    await several.remove()
  }
  if (only.has('model')) await sequences(url)
} finally {
  await cleanUp()
}
console.log(renderReport(tallies))
const minutes = ((performance.now() - startedAt) / 60_000).toFixed(1)
console.log(
  `\n${minutes} minutes. In doubt: calls on the wire, answers not stored yet and lookups leased ahead when their process died.`,
)
process.exitCode = tallies.some((tally) => tally.failed !== null) ? 1 : 0
