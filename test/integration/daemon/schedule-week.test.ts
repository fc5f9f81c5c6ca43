import pino from 'pino'
import { expect, test } from 'vitest'
import type { ScheduleEntry } from '../../../src/config/config.ts'
import { nextTimes, scheduleName } from '../../../src/config/cron.ts'
import { useFreshDatabase } from '../../support/database.ts'
import { Cable } from '../../support/cable.ts'
import { SchedulerDaemon } from '../../support/scheduler-daemon.ts'

const SECOND_MS = 1_000
const HOUR_MS = 3_600_000
const log = pino({ level: 'silent' })

const entry = (timezone: string, cron: string, options: Partial<ScheduleEntry> = {}): ScheduleEntry => ({
  cron,
  timezone,
  sources: [`${timezone} ${cron}`],
  budget: null,
  ...options,
})

/** At 02:00 and 02:30, which a night lacks or has twice, and at 03:00, when what it lacks runs: of one source, in turn. */
const entries = [
  ...['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'UTC'].flatMap((zone) => [
    ...['0 2 * * *', '30 2 * * *', '0 3 * * *'].map((cron) => entry(zone, cron, { sources: [zone] })),
    entry(zone, '30 1,2 * * *'),
    entry(zone, '15 2 * * *'),
  ]),
  entry('Europe/Berlin', '*/15 * * * *'),
  entry('Australia/Lord_Howe', '*/15 * * * *'),
  entry('Europe/Berlin', '30 2 * * SUN'),
  entry('America/New_York', '30 1 * * SUN'),
  entry('Europe/Berlin', '30 2 30 * *'),
  entry('UTC', '0 0 1 * *'),
]

/** Each holds what changes in it: the clock of one zone forward and of another back, or of two back. */
const WEEKS = [
  { from: '2025-03-29T18:07:00Z', hours: 168, changes: 'Berlin forward, Lord Howe back by half an hour' },
  { from: '2025-10-25T18:07:00Z', hours: 180, changes: 'Berlin back, New York back' },
  { from: '2025-03-08T18:07:00Z', hours: 24, changes: 'New York forward' },
  { from: '2025-10-04T12:07:00Z', hours: 24, changes: 'Lord Howe forward by half an hour' },
] as const

const database = useFreshDatabase()

/** What befalls the daemons, by the number of the poll, so that every kind comes about in each week. */
const isDeath = (poll: number): boolean => poll % 23 === 11
const isRestart = (poll: number): boolean => poll % 31 === 17
const isOutage = (poll: number): boolean => poll % 67 === 40
const isLongOutage = (poll: number): boolean => poll % 201 === 40

test.each(WEEKS)('every scheduled run once: $changes', async ({ from, hours }) => {
  const start = Date.parse(from)
  const firings = new Map(
    entries.map((one) => [
      scheduleName(one),
      nextTimes(one, start - 70 * 24 * HOUR_MS, 8_000).filter((at) => at <= start + hours * HOUR_MS),
    ]),
  )
  // Daemons poll a few seconds after each firing.
  const polls = [...new Set([...firings.values()].flat())]
    .filter((at) => at > start)
    .toSorted((one, other) => one - other)
    .map((at) => at + 3 * SECOND_MS)
  const cable = await new Cable(database.url).plug()
  const url = cable.through(database.url)
  let now = start
  let names = 0
  const open = (): SchedulerDaemon =>
    new SchedulerDaemon({ name: `daemon ${++names}`, entries, database, log, clock: () => now, url })
  let daemons = [open(), open()]
  const ended = new Map<string, number>()
  const expected = new Map<string, 'done' | 'skipped'>()
  const recorded = new Map<string, number>()

  /** The last firing of each schedule is recorded if it is new; it runs unless its schedule was not known before. */
  const expectDue = (): void => {
    for (const one of entries) {
      const name = scheduleName(one)
      const at = firings.get(name)?.findLast((time) => time <= now)
      if (at === undefined || recorded.get(name) === at) continue
      const isMissed = now - at > 60 * SECOND_MS && !recorded.has(name)
      recorded.set(name, at)
      expected.set(`${name} @ ${new Date(at).toISOString()}`, isMissed ? 'skipped' : 'done')
    }
  }
  const startDue = () => Promise.all(daemons.map((one) => one.schedule.startDue()))
  /** Ends what runs, and what starts then because it waited for another run of its source. */
  const endAll = async (): Promise<void> => {
    for (;;) {
      const busy = daemons.filter((one) => one.begun.length > 0)
      if (busy.length === 0) return
      for (const run of busy.flatMap((one) => one.begun.splice(0))) {
        count(ended, run.options.budgetName)
        run.end()
      }
      for (const one of busy) await one.idle()
      await startDue()
    }
  }

  await startDue()
  expectDue()
  await endAll()
  let awayUntil = 0
  const refused: PromiseSettledResult<void>[] = []
  for (const [poll, at] of polls.entries()) {
    now = at
    if (awayUntil > now) continue
    if (awayUntil > 0) {
      awayUntil = 0
      await cable.plug()
    }
    await startDue()
    expectDue()
    // The holder dies or is stopped in the middle of its runs, and another process finishes them.
    const holder = daemons.find((one) => one.begun.length > 0)
    if (holder !== undefined && (isDeath(poll) || isRestart(poll))) {
      if (isDeath(poll)) await holder.kill()
      else await holder.stop()
      daemons = [...daemons.filter((one) => one !== holder), open()]
      await startDue()
    }
    await endAll()
    if (isOutage(poll)) {
      await cable.pull()
      awayUntil = now + (isLongOutage(poll) ? 7 * HOUR_MS : 20 * 60 * SECOND_MS)
      now += 10 * 60 * SECOND_MS
      refused.push(...(await Promise.allSettled(daemons.map((one) => one.schedule.startDue()))))
    }
  }
  if (awayUntil > 0) await cable.plug()
  await Promise.all(daemons.map((one) => one.stop()))
  await cable.pull()

  const rows = await database.query<{ name: string; state: string; attempts: number }>(
    `select schedule || ' @ ' || to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as name, state, attempts
       from fillrate.scheduled_runs`,
  )
  expect(Object.fromEntries(rows.map((one) => [one.name, one.state]))).toEqual(Object.fromEntries(expected))
  const done = [...expected].filter(([, state]) => state === 'done').map(([name]) => name)
  expect(
    [...ended.keys()].map((name) => name.replace(/^schedule (.*) (\S+)$/, '$1 @ $2')).toSorted(),
  ).toEqual(done.toSorted())
  expect([...ended.values()].filter((times) => times !== 1)).toEqual([])
  // The faults of the week have come about.
  expect(new Set(refused.map((one) => one.status))).toEqual(new Set(['rejected']))
  expect(rows.some((one) => one.attempts > 1)).toBe(true)
  expect([...expected.values()]).toContain('skipped')
})

const count = (times: Map<string, number>, name: string): void =>
  void times.set(name, (times.get(name) ?? 0) + 1)
