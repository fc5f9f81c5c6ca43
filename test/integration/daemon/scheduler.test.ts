import pino from 'pino'
import { beforeEach, expect, test, vi } from 'vitest'
import type { ScheduleEntry } from '../../../src/config/config.ts'
import { scheduleName } from '../../../src/config/cron.ts'
import { useTestDatabase } from '../../support/database.ts'
import { SchedulerDaemon } from '../../support/scheduler-daemon.ts'

const entry = (cron: string, ...sources: string[]): ScheduleEntry => ({
  cron,
  timezone: 'Europe/Oslo',
  sources,
  budget: null,
})

const database = useTestDatabase()

/** In the past, because future times are not recorded. */
let clock = Date.parse('2021-06-01T12:00:00Z')
const log = pino({ level: 'silent' })
beforeEach(() => database.query('truncate fillrate.scheduled_runs'))

const openDaemon = (name: string, entries: readonly ScheduleEntry[]): SchedulerDaemon =>
  new SchedulerDaemon({ name, entries, database, log, clock: () => clock })

const ticks = () =>
  database.query<{
    schedule: string
    at: Date
    state: string
    attempts: number
    reason: string | null
    owner: string | null
  }>('select schedule, at, state, attempts, reason, owner from fillrate.scheduled_runs order by at, schedule')

test('runs of one source queue up; one still queued when the next is due is skipped', async () => {
  clock = Date.parse('2021-06-01T00:00:10Z')
  const daemon = openDaemon('one', [entry('*/10 * * * *', 'a', 'b'), entry('*/20 * * * *', 'b', 'c')])
  await daemon.schedule.startDue()
  expect(daemon.begun).toHaveLength(1)
  const [first] = daemon.begun
  expect((await ticks()).map((one) => [one.state, one.reason])).toEqual([
    ['running', null],
    ['waiting', 'waits for another run of its sources'],
  ])
  clock += 20 * 60_000
  await daemon.schedule.startDue()
  expect((await ticks()).filter((one) => one.state === 'skipped').map((one) => one.reason)).toEqual([
    'the next one was due before it could start',
  ])
  first?.end()
  await expect
    .poll(async () => {
      await daemon.schedule.startDue()
      return daemon.begun.length
    })
    .toBe(2)
  await daemon.stop()
})

test('after an outage of Postgres a run is taken over only if its process does not come back', async () => {
  clock = Date.parse('2021-06-01T00:00:10Z')
  const entries = [entry('*/10 * * * *', 'a'), entry('*/20 * * * *', 'a')]
  const [holder, other] = [openDaemon('holder', entries), openDaemon('other', entries)]
  await holder.schedule.startDue()
  await other.schedule.startDue()
  expect([holder.begun.length, other.begun.length]).toEqual([1, 0])
  // Postgres was away for an hour: each lease has expired, and the other process is the first to come back.
  await database.query(`update fillrate.scheduled_runs set leased_until = now() - interval '1 s'
    where state = 'running'`)
  const awayFor = async (ms: number): Promise<void> => {
    const now = performance.now()
    const clocks = vi.spyOn(performance, 'now').mockReturnValue(now + ms)
    await other.schedule.startDue()
    clocks.mockRestore()
  }
  await awayFor(3_600_000)
  expect(other.begun).toEqual([])
  expect(await ticks()).toMatchObject([
    { state: 'running', owner: 'holder', attempts: 1 },
    { state: 'waiting', attempts: 0 },
  ])
  await awayFor(3_600_000 + 250_000)
  expect(other.begun).toEqual([])
  await awayFor(3_600_000 + 610_000)
  expect(other.begun).toHaveLength(1)
  expect(await ticks()).toMatchObject([{ owner: 'other', attempts: 2 }, { attempts: 0 }])
  for (const daemon of [other, holder]) {
    for (const one of daemon.begun) one.end()
    await daemon.stop()
  }
})

test('missed runs are caught up once; a restart finishes started ones', async () => {
  clock = Date.parse('2021-06-01T12:00:00Z')
  const entries = [entry('0 2 * * *', 'a')]
  const before = openDaemon('before', entries)
  await before.schedule.startDue()
  expect(before.begun).toEqual([]) // last night was before it was known
  await before.stop()
  clock += 3 * 86_400_000
  const after = openDaemon('after', entries)
  await after.schedule.startDue()
  expect(after.begun.map((one) => one.entry.cron)).toEqual(['0 2 * * *'])
  await after.stop()
  const again = openDaemon('again', entries)
  await again.schedule.startDue()
  expect(again.begun.map((one) => one.entry.cron)).toEqual(['0 2 * * *'])
  again.begun[0]?.end()
  await expect.poll(async () => (await ticks()).filter((one) => one.state === 'done').length).toBe(1)
  await again.schedule.startDue()
  expect(again.begun).toHaveLength(1)
  await again.stop()
})

test('runs recorded in the future by a wrong clock stand in for none that is due before', async () => {
  clock = Date.parse('2021-06-01T12:00:00Z')
  const nightly = entry('0 2 * * *', 'a')
  // A machine resumed with a clock 400 days ahead, ran what was due there, and died while starting the next runs.
  await database.query(
    `insert into fillrate.scheduled_runs (schedule, at, sources, state, finished_at, lease_token, leased_until) values
       ($1, $2, '{a}', 'done', now(), null, null),
       ($1, now() + interval '400 days', '{a}', 'done', now(), null, null),
       ($1, now() + interval '401 days', '{a}', 'waiting', null, null, null),
       ($1, now() + interval '402 days', '{a}', 'running', null, gen_random_uuid(), now() + interval '402 days'),
       ('a schedule that is gone', now() + interval '402 days', '{a}', 'running', null, gen_random_uuid(), now() + interval '402 days'),
       ('another that is gone', $2, '{a}', 'running', null, gen_random_uuid(), now() + interval '402 days')`,
    [scheduleName(nightly), new Date(clock - 86_400_000)],
  )
  const daemon = openDaemon('one', [nightly])
  const nights: number[] = []
  for (let night = 0; night < 30; night++, clock += 86_400_000) {
    await daemon.schedule.startDue()
    nights.push(...daemon.begun.map(() => night))
    for (const one of daemon.begun.splice(0)) one.end()
    await daemon.idle()
  }
  await daemon.stop()
  expect(nights).toEqual(Array.from({ length: 30 }, (_, night) => night))
})

test('a run slightly in the future is kept, after a small clock correction', async () => {
  const nightly = entry('0 2 * * *', 'a')
  const name = scheduleName(nightly)
  await database.query(
    `insert into fillrate.scheduled_runs (schedule, at, sources, state) values ($1, now() + interval '30 s', '{a}', 'waiting')`,
    [name],
  )
  const daemon = openDaemon('one', [nightly])
  await daemon.schedule.startDue()
  expect(daemon.begun).toEqual([])
  expect((await ticks()).filter((one) => one.schedule === name && one.state === 'waiting')).toHaveLength(1)
  await daemon.stop()
})
