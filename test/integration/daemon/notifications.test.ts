import pino from 'pino'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import type { NotifyTarget } from '../../../src/config/config.ts'
import { Notifier } from '../../../src/daemon/notifier.ts'
import type { FillrateNotification } from '../../../src/domain/report/notification.ts'
import { type Condition, type ConditionKind, toOutageCondition } from '../../../src/domain/condition.ts'
import { listRecentConditions, recordConditions, recordOutage } from '../../../src/store/conditions.ts'
import { useTestDatabase } from '../../support/database.ts'
import { type LoopbackService, startLoopback } from '../../support/loopback.ts'

interface Received {
  readonly path: string
  readonly body: FillrateNotification & { readonly text?: string }
}

const database = useTestDatabase()
let target: LoopbackService
let received: Received[] = []
/** Status codes of the next answers; 200 after them. */
let answers: number[] = []
const lines: { readonly event: string }[] = []
const log = pino({ level: 'debug' }, { write: (line) => lines.push(JSON.parse(line) as { event: string }) })

beforeAll(async () => {
  target = await startLoopback(({ url, body }, response) => {
    received.push({ path: url, body: JSON.parse(body) as Received['body'] })
    response.writeHead(answers.shift() ?? 200).end()
  })
})
afterAll(() => target.close())
beforeEach(async () => {
  received = []
  answers = []
  lines.length = 0
  await database.query('truncate fillrate.conditions, fillrate.leases, fillrate.runs cascade')
})

const open = (...targets: Partial<NotifyTarget>[]): Notifier =>
  new Notifier({
    owner: 'test',
    targets: targets.map((one) => ({ url: `${target.url}/hook`, form: 'json', on: ['error'], ...one })),
    url: null,
    dashboardUrl: 'https://fillrate.example.com',
    log,
  })

/** A condition begins, as it is recorded. */
const begin = (kind: ConditionKind, { source = '', details = '{}', since = '0 s' } = {}) =>
  database.query(`insert into fillrate.conditions (kind, service, source, details, began_at, seen_at)
    values ('${kind}', 'acme', nullif('${source}', ''), '${details}', now() - interval '${since}', now())`)
const end = () => database.query('update fillrate.conditions set ended_at = now() where ended_at is null')
/** It began, and ended, earlier. */
const pass = (interval: string) =>
  database.query(
    `update fillrate.conditions set began_at = began_at - interval '${interval}', ended_at = ended_at - interval '${interval}'`,
  )

const events = () => received.map(({ body }) => body.event)

test('a condition is reported once, and so is its end, however many processes send it', async () => {
  const processes = [open({}), open({})] as const
  await begin('key_refused')
  await Promise.all(processes.map((one) => one.send(database.db)))
  await end()
  await Promise.all([...processes, processes[0]].map((one) => one.send(database.db)))
  expect(events()).toEqual(['condition_began', 'condition_ended'])
  expect(received[0]).toMatchObject({
    body: {
      severity: 'error',
      condition: { kind: 'key_refused', service: 'acme', source: null },
    },
  })
  expect(received[1]?.body.duration_ms).toBeGreaterThanOrEqual(0)
})

test('by default only what needs a person; each target gets its own form', async () => {
  const notifier = open({}, { url: `${target.url}/slack`, form: 'slack', on: ['error', 'warning'] })
  await begin('key_refused')
  await begin('budget_used')
  await notifier.send(database.db)
  expect(received.map(({ path }) => path).toSorted()).toEqual(['/hook', '/slack', '/slack'])
  const slack = received.filter(({ path }) => path === '/slack')
  expect(slack.map(({ body }) => Object.keys(body))).toEqual([['text'], ['text']])
})

test('an address that is listed twice gets the topics of both, each once', async () => {
  const notifier = open({ on: ['warning'] }, { on: ['error', 'warning'] }, { on: ['error'] })
  await begin('key_refused')
  await begin('budget_used')
  await notifier.send(database.db)
  expect(received.map(({ body }) => body.condition?.kind).toSorted()).toEqual(['budget_used', 'key_refused'])
})

test('what ends within a minute by itself reaches no one; what lasts is reported with its end', async () => {
  const notifier = open({})
  await begin('service_failing')
  expect(await notifier.send(database.db)).toBe(0)
  await end()
  await pass('2 min')
  expect(await notifier.send(database.db)).toBe(0)
  await begin('service_failing', { since: '61 s' })
  expect(await notifier.send(database.db)).toBe(1)
  await end()
  expect(await notifier.send(database.db)).toBe(1)
  expect(events()).toEqual(['condition_began', 'condition_ended'])
})

test('a notification has the figures of when it is sent, and an end none of before', async () => {
  const notifier = open({})
  await begin('service_failing', { since: '61 s', details: '{"reason": "HTTP 500"}' })
  await database.query(`update fillrate.conditions set details = details || '{"waiting": 40}'`)
  await notifier.send(database.db)
  await end()
  await notifier.send(database.db)
  expect(received.map(({ body }) => body.title)).toEqual([
    'acme answers with errors (HTTP 500)',
    expect.stringMatching(/^Over after .*: acme answers with errors \(HTTP 500\)$/),
  ])
  expect(received[0]?.body.meaning).toContain('40 rows wait')
})

/** An outage that has lasted for so long. */
const away = (forMs: number): Condition => toOutageCondition({ details: {}, forMs }, Date.now())

test('an outage of Postgres is sent from memory after half a minute, and each of two within ten minutes has its end', async () => {
  const notifier = open({})
  expect(await notifier.notifyOfOutage(away(29_000), [])).toEqual([])
  for (const forMs of [31_000, 45_000]) {
    const acceptedBy = await notifier.notifyOfOutage(away(forMs), [])
    expect(await notifier.notifyOfOutage(away(forMs + 1_000), acceptedBy)).toEqual([])
    await recordOutage(database.db, {
      forMs,
      details: {},
      acceptedBy,
    })
    await recordConditions(database.db, { schedules: null })
    await notifier.send(database.db)
    await pass('1 min')
  }
  expect(events()).toEqual(['condition_began', 'condition_ended', 'condition_began', 'condition_ended'])
})

test('of several processes one tells an outage, and all record one', async () => {
  const [speaker, other] = [open({}), open({})]
  for (const one of [speaker, other]) await one.send(database.db)
  const acceptedBy = await Promise.all([speaker, other].map((one) => one.notifyOfOutage(away(31_000), [])))
  expect(acceptedBy.flat()).toHaveLength(1)
  for (const accepted of acceptedBy)
    await recordOutage(database.db, { forMs: 31_000, details: {}, acceptedBy: accepted })
  await recordConditions(database.db, { schedules: null })
  await other.send(database.db)
  await speaker.send(database.db)
  expect(events()).toEqual(['condition_began', 'condition_ended'])
  expect(await listRecentConditions(database.db, 10)).toHaveLength(1)
})

test('a process that takes over during an outage leaves it to the one that notified before', async () => {
  const [speaker, other] = [open({}), open({})] as const
  for (const one of [speaker, other]) await one.send(database.db)
  const acceptedBy = await speaker.notifyOfOutage(away(31_000), [])
  expect(acceptedBy).toHaveLength(1)
  await database.query('truncate fillrate.leases')
  await other.send(database.db)
  expect(await other.notifyOfOutage(away(32_000), [])).toEqual([])
  // It stores the outage first, and waits for what the one before has notified of.
  const outage = { forMs: 32_000, details: { sqlstate: '25006' } }
  await recordOutage(database.db, { ...outage, acceptedBy: [] })
  await other.send(database.db)
  expect(events()).toEqual(['condition_began'])
  await recordOutage(database.db, { ...outage, acceptedBy })
  await end()
  await other.send(database.db)
  expect(events()).toEqual(['condition_began', 'condition_ended'])
  // Of one that nobody has notified of, it speaks itself.
  await pass('2 min')
  await recordOutage(database.db, { forMs: 40_000, details: { sqlstate: '53100' }, acceptedBy: [] })
  vi.setSystemTime(Date.now() + 20_000)
  onTestFinished(() => void vi.useRealTimers())
  await other.send(database.db)
  expect(events()).toHaveLength(3)
  // Of the next one, the first no longer notifies, also where it has not found out who does.
  vi.setSystemTime(Date.now() + 100_000)
  expect(await speaker.notifyOfOutage(away(31_000), [])).toEqual([])
})

test('a process whose lease had run out speaks of what begins from its next one on', async () => {
  const notifier = open({})
  await notifier.send(database.db)
  vi.setSystemTime(Date.now() + 120_000)
  onTestFinished(() => void vi.useRealTimers())
  await notifier.send(database.db)
  expect(await notifier.notifyOfOutage(away(60_000), [])).toEqual([])
  vi.setSystemTime(Date.now() + 20_000)
  await notifier.send(database.db)
  vi.setSystemTime(Date.now() + 15_000)
  expect(await notifier.notifyOfOutage(away(31_000), [])).toHaveLength(1)
})

test('a target that fails is tried again with the same event_id, and an end without its begin is sent to no one', async () => {
  const notifier = open({})
  answers = [500, 404]
  await begin('key_refused')
  const clock = vi.spyOn(performance, 'now')
  onTestFinished(() => clock.mockRestore())
  for (const seconds of [0, 5, 11, 20, 42, 43]) {
    clock.mockReturnValue(1_000_000 + seconds * 1_000)
    await notifier.send(database.db)
  }
  expect(events()).toEqual(['condition_began', 'condition_began', 'condition_began'])
  expect(new Set(received.map(({ body }) => body.event_id)).size).toBe(1)
  expect(lines.filter(({ event }) => event === 'notification_failed')).toMatchObject([
    { host: new URL(target.url).host, attempts: 1, reason: 'HTTP 500' },
    { attempts: 2, reason: 'HTTP 404' },
  ])
  expect(JSON.stringify(lines)).not.toContain('/hook')
  await end()
  await notifier.send(database.db)
  answers = [500]
  await begin('out_of_credits')
  await notifier.send(database.db)
  await end()
  clock.mockReturnValue(2_000_000)
  await notifier.send(database.db)
  expect(events().slice(3)).toEqual(['condition_ended', 'condition_began'])
})

test('why a target cannot be reached is said in words, and it holds up no other', async () => {
  const notifier = open({}, { url: 'http://127.0.0.1:9/hook', form: 'json', on: ['error'] })
  await begin('key_refused')
  expect(await notifier.send(database.db)).toBe(1)
  expect(lines.filter(({ event }) => event === 'notification_failed')).toMatchObject([
    { host: '127.0.0.1:9', reason: 'connection refused' },
  ])
})

test('a process that dies leaves what it has not noted to the next one, which waits for its lease', async () => {
  await begin('key_refused')
  expect(await open({}).send(database.db)).toBe(1)
  await database.query(`update fillrate.conditions set accepted_by = '{}'`)
  const next = open({})
  expect(await next.send(database.db)).toBe(0)
  await database.query(`update fillrate.leases set leased_until = now() - interval '1 s'`)
  expect(await next.send(database.db)).toBe(1)
  expect(await next.send(database.db)).toBe(0)
  expect(new Set(received.map(({ body }) => body.event_id)).size).toBe(1)
})

test('an end is sent for a day', async () => {
  await begin('key_refused')
  const notifier = open({})
  await notifier.send(database.db)
  await end()
  await pass('25 h')
  expect(await notifier.send(database.db)).toBe(0)
})

test('four processes send a hundred notifications, each once', async () => {
  const processes = [1, 2, 3, 4].map(() => open({}))
  for (let n = 0; n < 100; n++) await begin('run_failed', { source: `source ${n}` })
  await Promise.all(processes.map((one) => one.send(database.db)))
  expect(received).toHaveLength(100)
  expect(new Set(received.map(({ body }) => body.event_id)).size).toBe(100)
})
