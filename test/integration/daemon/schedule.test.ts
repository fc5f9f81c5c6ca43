import { setTimeout as sleep } from 'node:timers/promises'
import pino from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ScheduleEntry } from '../../../src/config/config.ts'
import { Schedule, type RunTick } from '../../../src/daemon/schedule.ts'
import { ticksAfter } from '../../../src/daemon/times.ts'
import { openDatabase, type Database } from '../../../src/store/open.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

const LEASE_MS = 200
const START = Date.parse('2026-03-29T00:30:00Z') // Oslo's clock leaves out an hour meanwhile
const entry = (cron: string, ...sources: string[]): ScheduleEntry => ({
  cron,
  timezone: 'Europe/Oslo',
  sources,
  budget: null,
  limit: null,
  catchUp: true,
})

let database: TestDatabase
let clock = START
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

interface Began {
  readonly by: string
  readonly entry: ScheduleEntry
  readonly signal: AbortSignal
  end(status?: 'completed' | 'interrupted'): void
}

/** A daemon's schedule on a connection of its own: without it, it is as good as dead. */
class Daemon {
  readonly began: Began[] = []
  readonly schedule: Schedule
  readonly #db: Database

  constructor(name: string, entries: readonly ScheduleEntry[]) {
    this.#db = openDatabase({ url: database.url, max: 2 })
    const run = (of: ScheduleEntry, { signal }: RunTick) =>
      new Promise<{ status: 'completed' | 'interrupted'; reason: null }>((resolve) => {
        const end = (status: 'completed' | 'interrupted' = 'completed'): void =>
          resolve({ status, reason: null })
        signal.addEventListener('abort', () => end('interrupted'))
        this.began.push({ by: name, entry: of, signal, end })
      })
    this.schedule = new Schedule(
      { db: this.#db, log: pino({ level: 'silent' }), owner: name, now: () => clock, leaseMs: LEASE_MS, run },
      entries,
    )
  }

  async stop(): Promise<void> {
    await this.schedule.stop()
    await this.#db.destroy()
  }

  /** Nothing that it does reaches the database any more. */
  kill(): Promise<void> {
    return this.#db.destroy()
  }
}

const ticks = async () =>
  (
    await database.pool.query<{
      schedule: string
      at: Date
      state: string
      attempts: number
      reason: string | null
    }>('select schedule, at, state, attempts, reason from fillrate.ticks order by at, schedule')
  ).rows

test('two daemons run every tick of an hour once, and the death of either changes nothing', async () => {
  await database.pool.query('truncate fillrate.ticks')
  clock = START
  const entries = [entry('*/5 * * * *', 'a'), entry('*/15 * * * *', 'b')]
  let daemons = [new Daemon('one', entries), new Daemon('two', entries)]
  const all = [...daemons]
  const expected = entries.flatMap((one) =>
    ticksAfter(one, START - 1, 50).filter((at) => at <= START + 3_600_000),
  )
  const killAt = [START + 15 * 60_000 + 10_000, START + 40 * 60_000 + 10_000]
  for (; clock <= START + 3_600_000; clock += 10_000) {
    await Promise.all(daemons.map((daemon) => daemon.schedule.tick()))
    if (killAt.includes(clock)) {
      // Right after ticks have begun: those of the dead one are finished by the other.
      const [victim, survivor] = [daemons.find((one) => one.began.length > 0), daemons.at(-1)]
      if (!victim || !survivor) throw new Error('nothing has begun')
      await victim.kill()
      const next = new Daemon(`after ${killAt.indexOf(clock)}`, entries)
      all.push(next)
      daemons = [...daemons.filter((one) => one !== victim), next]
      do {
        await Promise.all(daemons.map((daemon) => daemon.schedule.tick()))
        for (const daemon of daemons) for (const one of daemon.began.splice(0)) one.end()
        await sleep(50)
      } while ((await ticks()).some((one) => one.state === 'running'))
    }
    if (clock % 60_000 === 30_000)
      for (const daemon of daemons) for (const one of daemon.began.splice(0)) one.end()
  }
  await expect
    .poll(async () => {
      for (const daemon of daemons) {
        await daemon.schedule.tick()
        for (const one of daemon.began.splice(0)) one.end()
      }
      return (await ticks()).every(
        (one) => one.state === 'done' || one.reason === 'it was before the schedule was known',
      )
    })
    .toBe(true)
  const done = (await ticks()).filter((one) => one.state === 'done')
  expect(done.map((one) => one.at.getTime()).toSorted()).toEqual(expected.toSorted())
  // Begun again only where its daemon had died.
  const again = done.filter((one) => one.attempts > 1).length
  expect(again).toBeGreaterThan(0)
  expect(again).toBeLessThanOrEqual(4)
  await Promise.all(daemons.map((daemon) => daemon.stop()))
  for (const daemon of all) for (const one of daemon.began) one.end()
})

test('runs of one source follow each other; a tick that still waits when the next comes is skipped', async () => {
  await database.pool.query('truncate fillrate.ticks')
  clock = Date.parse('2026-06-01T00:00:10Z')
  const daemon = new Daemon('one', [entry('*/10 * * * *', 'a', 'b'), entry('*/20 * * * *', 'b', 'c')])
  await daemon.schedule.tick()
  expect(daemon.began).toHaveLength(1)
  const [first] = daemon.began
  expect((await ticks()).map((one) => [one.state, one.reason])).toEqual([
    ['running', null],
    ['waiting', 'waits for another run of its sources'],
  ])
  clock += 20 * 60_000
  await daemon.schedule.tick()
  expect((await ticks()).filter((one) => one.state === 'skipped').map((one) => one.reason)).toEqual([
    'the next one came before it could begin',
  ])
  first?.end()
  await expect
    .poll(async () => {
      await daemon.schedule.tick()
      return daemon.began.length
    })
    .toBe(2)
  await daemon.stop()
})

test('what was missed while everything was down is run once; a restart finishes what was begun', async () => {
  await database.pool.query('truncate fillrate.ticks')
  clock = Date.parse('2026-06-01T12:00:00Z')
  const entries = [entry('0 2 * * *', 'a'), { ...entry('30 2 * * *', 'b'), catchUp: false }]
  const before = new Daemon('before', entries)
  await before.schedule.tick()
  expect(before.began).toEqual([]) // last night was before it was known
  await before.stop()
  clock += 3 * 86_400_000
  const after = new Daemon('after', entries)
  await after.schedule.tick()
  expect(after.began.map((one) => one.entry.cron)).toEqual(['0 2 * * *'])
  await after.stop()
  const again = new Daemon('again', entries)
  await again.schedule.tick()
  expect(again.began.map((one) => one.entry.cron)).toEqual(['0 2 * * *'])
  again.began[0]?.end()
  await expect.poll(async () => (await ticks()).filter((one) => one.state === 'done').length).toBe(1)
  await again.schedule.tick()
  expect(again.began).toHaveLength(1)
  await again.stop()
  expect((await ticks()).filter((one) => one.reason?.includes('catchUp')).map((one) => one.state)).toEqual([
    'skipped',
  ])
})
