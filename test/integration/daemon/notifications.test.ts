import pino from 'pino'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { NotifyTarget } from '../../../src/config/config.ts'
import { Notifier } from '../../../src/daemon/notifier.ts'
import type { FillrateNotification } from '../../../src/domain/notification.ts'
import type { TroubleCode } from '../../../src/domain/trouble.ts'
import { listFailingTargets, listNotifications } from '../../../src/store/notifications.ts'
import { listOpenTroubles, reportTroubles } from '../../../src/store/troubles.ts'
import { useTestDatabase } from '../../support/database.ts'
import { type LoopbackService, startLoopback } from '../../support/loopback.ts'

interface Received {
  readonly path: string
  readonly id: string | undefined
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
  target = await startLoopback(({ url, headers, body }, response) => {
    const id = headers['webhook-id'] as string | undefined
    received.push({ path: url, id, body: JSON.parse(body) as Received['body'] })
    response.writeHead(answers.shift() ?? 200).end()
  })
})
afterAll(() => target.close())
beforeEach(async () => {
  received = []
  answers = []
  lines.length = 0
  await database.query('truncate fillrate.troubles, fillrate.notifications')
})

const open = (...targets: Partial<NotifyTarget>[]): Notifier =>
  new Notifier({
    db: database.db,
    targets: targets.map((one) => ({ url: `${target.url}/hook`, form: 'json', on: ['error'], ...one })),
    url: null,
    secrets: ['a secret of the receiver'],
    environment: 'production',
    dashboardUrl: 'https://fillrate.example.com',
    log,
  })

/** One process sees these troubles, and no others of their codes. */
const see = (notifier: Notifier, codes: readonly TroubleCode[], holding: readonly TroubleCode[]) =>
  reportTroubles(
    database.db,
    { reporter: 'test', codes },
    holding.map((code) => ({ code, subject: 'api.example.com 62af8704', since: new Date(), details: {} })),
    notifier.queueTroubles,
  )

/** What was seen was seen a while ago: a trouble that comes and goes is held open for some seconds. */
const letPass = () =>
  database.pool.query(`update fillrate.troubles
    set began_at = began_at - interval '5 min', seen_at = seen_at - interval '5 min' where ended_at is null`)

const makeDue = () => database.pool.query('update fillrate.notifications set not_before = now()')
const events = () => received.map(({ body }) => body.event)
const states = async () => (await listNotifications(database.db, 100)).map(({ state }) => state)

test('a trouble is reported once, and so is its end, however many processes see and send it', async () => {
  const [one, other] = [open({}), open({})]
  await Promise.all([one, other].map((notifier) => see(notifier, ['key_refused'], ['key_refused'])))
  await Promise.all([one.send(), other.send()])
  await Promise.all([one, other].map((notifier) => see(notifier, ['key_refused'], [])))
  await Promise.all([other.send(), one.send(), one.send()])
  expect(events()).toEqual(['trouble_began', 'trouble_ended'])
  expect(received[0]).toMatchObject({
    body: { environment: 'production', severity: 'error', trouble: { code: 'key_refused' } },
  })
  expect(received[0]?.id).toBe(received[0]?.body.event_id)
  expect(received[1]?.body.duration_ms).toBeGreaterThanOrEqual(0)
  expect(await states()).toEqual(['delivered', 'delivered'])
})

test('by default only what needs a person; each target gets its own form, under one event_id', async () => {
  const notifier = open({}, { url: `${target.url}/slack`, form: 'slack', on: ['error', 'warning'] })
  await see(notifier, ['key_refused', 'live_sync_budget_spent'], ['key_refused', 'live_sync_budget_spent'])
  while ((await notifier.send()) > 0);
  expect(received.map(({ path }) => path).toSorted()).toEqual(['/hook', '/slack', '/slack'])
  const slack = received.filter(({ path }) => path === '/slack')
  expect(slack.map(({ body, id }) => [Object.keys(body), id])).toEqual([
    [['text'], undefined],
    [['text'], undefined],
  ])
  const ids = (await listNotifications(database.db, 100)).map(
    ({ body }) => `${body.trouble?.code} ${body.event_id}`,
  )
  expect(new Set(ids).size).toBe(2)
})

test('an address that is listed twice gets the topics of both, each once', async () => {
  const notifier = open({ on: ['warning'] }, { on: ['error', 'warning'] }, { on: ['completed'] })
  await see(notifier, ['key_refused', 'live_sync_budget_spent'], ['key_refused', 'live_sync_budget_spent'])
  while ((await notifier.send()) > 0);
  expect(received.map(({ body }) => body.trouble?.code).toSorted()).toEqual([
    'key_refused',
    'live_sync_budget_spent',
  ])
})

test('a notification and its trouble are stored together or not at all', async () => {
  await expect(
    reportTroubles(
      database.db,
      { reporter: 'test', codes: ['key_refused'] },
      [{ code: 'key_refused', subject: '', since: new Date(), details: {} }],
      async (tx, changes) => {
        await open({}).queueTroubles?.(tx, changes)
        throw new Error('killed before the commit')
      },
    ),
  ).rejects.toThrow('killed')
  const rows = await database.query(
    'select 1 from fillrate.troubles union all select 1 from fillrate.notifications',
  )
  expect(rows).toEqual([])
})

test('what ends within a minute by itself reaches no one; what lasts is reported with its end', async () => {
  const notifier = open({})
  await see(notifier, ['circuit_open'], ['circuit_open'])
  expect(await notifier.send()).toBe(0)
  await letPass()
  await see(notifier, ['circuit_open'], [])
  await makeDue()
  expect(await notifier.send()).toBe(0)
  expect(await states()).toEqual([])

  await see(notifier, ['circuit_open'], ['circuit_open'])
  await makeDue()
  await notifier.send()
  await letPass()
  await see(notifier, ['circuit_open'], [])
  await notifier.send()
  expect(events()).toEqual(['trouble_began', 'trouble_ended'])
})

test('what comes and goes is reported once, and again only if it has come back to stay', async () => {
  const notifier = open({})
  const flap = async (): Promise<void> => {
    await see(notifier, ['key_refused'], ['key_refused'])
    await notifier.send()
    await see(notifier, ['key_refused'], [])
    await notifier.send()
  }
  for (let n = 0; n < 4; n++) await flap()
  expect(events()).toEqual(['trouble_began', 'trouble_ended'])
  await see(notifier, ['key_refused'], ['key_refused'])
  await notifier.send()
  expect(events()).toHaveLength(2)
  await makeDue()
  await notifier.send()
  await see(notifier, ['key_refused'], [])
  await notifier.send()
  expect(events()).toEqual(['trouble_began', 'trouble_ended', 'trouble_began', 'trouble_ended'])
  // Later it is news.
  await database.query(
    `update fillrate.troubles set began_at = began_at - interval '11 min', ended_at = ended_at - interval '11 min'`,
  )
  await see(notifier, ['key_refused'], ['key_refused'])
  await notifier.send()
  expect(events()).toHaveLength(5)
})

test('a notification has the figures of when it is sent, and an end none of before', async () => {
  const notifier = open({})
  const report = (waiting: number | null) =>
    reportTroubles(
      database.db,
      { reporter: 'test', codes: ['circuit_open'] },
      waiting === null
        ? []
        : [
            {
              code: 'circuit_open',
              subject: 'a.example 1',
              since: new Date(),
              details: { waiting, reason: 'HTTP 500' },
            },
          ],
      notifier.queueTroubles,
    )
  await report(0)
  await database.query(
    `update fillrate.troubles set seen_at = seen_at - interval '1 s', began_at = began_at - interval '1 s'`,
  )
  await report(40)
  await makeDue()
  await notifier.send()
  await report(null)
  await notifier.send()
  expect(received.map(({ body }) => [body.title, body.trouble?.details])).toEqual([
    ['a.example answers with errors (HTTP 500)', { reason: 'HTTP 500', waiting: 40 }],
    [
      expect.stringMatching(/^Over after .*: a\.example answers with errors \(HTTP 500\)$/),
      { reason: 'HTTP 500' },
    ],
  ])
  expect(received[0]?.body.meaning).toMatch(/^40 rows are waiting/)
})

test('an outage of Postgres, over before it could be stored, is reported if it was long', async () => {
  const notifier = open({})
  const now = Date.now()
  for (const ms of [20_000, 180_000])
    await reportTroubles(
      database.db,
      { reporter: 'test', codes: [] },
      [
        {
          code: 'database_away',
          subject: '',
          since: new Date(now - ms - 60_000),
          endedAt: new Date(now - 60_000),
          details: {},
        },
      ],
      notifier.queueTroubles,
    ).then(() => database.pool.query('truncate fillrate.troubles'))
  await notifier.send()
  expect(received.map(({ body }) => [body.event, body.duration_ms])).toEqual([['trouble_ended', 180_000]])
})

test('a target that fails is tried again with the same event_id, and the end waits for its begin', async () => {
  const notifier = open({})
  answers = [500, 404]
  await see(notifier, ['key_refused'], ['key_refused'])
  await notifier.send()
  await see(notifier, ['key_refused'], [])
  expect(await notifier.send()).toBe(0)
  for (let n = 0; n < 3; n++) {
    await makeDue()
    await notifier.send()
  }
  expect(events()).toEqual(['trouble_began', 'trouble_began', 'trouble_began', 'trouble_ended'])
  expect(new Set(received.slice(0, 3).map(({ id }) => id)).size).toBe(1)
  expect(lines.filter(({ event }) => event === 'notification_failed')).toMatchObject([
    { host: new URL(target.url).host, attempts: 1, reason: 'HTTP 500' },
    { attempts: 2, reason: 'HTTP 404' },
  ])
  expect(JSON.stringify(lines)).not.toContain('/hook')
})

test('why a target cannot be reached is said in words', async () => {
  const notifier = open({}, { url: 'http://127.0.0.1:9/hook', form: 'json', on: ['error'] })
  await see(notifier, ['key_refused'], ['key_refused'])
  await notifier.send()
  expect(lines.filter(({ event }) => event === 'notification_failed')).toMatchObject([
    { host: '127.0.0.1:9', reason: 'connection refused' },
  ])
})

test('a process that dies between the answer and its record leaves a second attempt, and no third', async () => {
  const notifier = open({})
  await see(notifier, ['key_refused'], ['key_refused'])
  // What a killed process leaves behind.
  await database.query(
    `update fillrate.notifications set attempts = 1, lease_token = gen_random_uuid(), leased_until = now() + interval '30 s'`,
  )
  expect(await notifier.send()).toBe(0)
  await database.query(`update fillrate.notifications set leased_until = now() - interval '1 s'`)
  expect(await notifier.send()).toBe(1)
  expect(await notifier.send()).toBe(0)
})

test('after a day it is given up: in the log, in the list, and as a failing target', async () => {
  const notifier = open({})
  answers = [503]
  await see(notifier, ['key_refused'], ['key_refused'])
  await database.query(`update fillrate.notifications set created_at = now() - interval '25 h'`)
  await notifier.send()
  expect(await states()).toEqual(['given_up'])
  expect(lines.map(({ event }) => event)).toContain('notification_given_up')
  expect(await listFailingTargets(database.db)).toMatchObject([
    { host: new URL(target.url).host, reason: 'HTTP 503', waiting: 0 },
  ])

  await see(open({ url: 'http://127.0.0.1:1/gone' }), ['schedule_late'], ['schedule_late'])
  await database.query(
    `update fillrate.notifications set created_at = now() - interval '27 h' where state = 'pending'`,
  )
  await notifier.maintain('test')
  expect(await states()).toEqual(['given_up', 'given_up'])

  await see(notifier, ['banned'], ['banned'])
  await notifier.send()
  expect((await listFailingTargets(database.db)).map(({ host }) => host)).toEqual(['127.0.0.1:1'])
  const failing = async () =>
    (await listOpenTroubles(database.db)).filter(({ code }) => code === 'notification_failed')
  expect((await failing()).map(({ subject }) => subject).toSorted()).toEqual([
    '127.0.0.1:1',
    new URL(target.url).host,
  ])
  await notifier.maintain('test')
  expect((await failing()).map(({ subject }) => subject)).toEqual(['127.0.0.1:1'])
  expect(lines.filter(({ event }) => event.startsWith('trouble_')).map(({ event }) => event)).toEqual([
    'trouble_began',
    'trouble_began',
    'trouble_ended',
  ])
})

test('four processes send a hundred notifications, each once', async () => {
  const processes = [1, 2, 3, 4].map(() => open({}))
  await reportTroubles(
    database.db,
    { reporter: 'test', codes: [] },
    Array.from({ length: 100 }, (_, n) => ({
      code: 'schedule_late' as const,
      subject: `schedule ${n}`,
      since: new Date(),
      details: {},
    })),
    processes[0]?.queueTroubles,
  )
  const drain = async (notifier: Notifier): Promise<void> => {
    while ((await notifier.send()) > 0);
  }
  await Promise.all(processes.map(drain))
  await drain(processes[0] ?? open({}))
  expect(received).toHaveLength(100)
  expect(new Set(received.map(({ id }) => id)).size).toBe(100)
})
