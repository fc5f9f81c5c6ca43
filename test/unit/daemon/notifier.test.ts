import pino from 'pino'
import { type Server, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { NotifyTarget } from '../../../src/config/config.ts'
import { Notifier, type RunNotification } from '../../../src/daemon/notifier.ts'
import { NOTIFICATION_KINDS } from '../../../src/domain/run.ts'
import { ROW_STATES } from '../../../src/domain/row.ts'
import type { RunReport } from '../../../src/runs/report.ts'
import { verifyWebhook } from '../../../src/webhook/signature.ts'

const SECRET = 'notify-secret'
let server: Server
let url: string
let answers: number[] = []
let received: { body: string; signature: string | undefined }[] = []

beforeEach(async () => {
  answers = []
  received = []
  server = createServer((request, response) => {
    let body = ''
    request.on('data', (text) => (body += text))
    request.on('end', () => {
      const signature = request.headers['x-webhook-signature']
      received.push({ body, signature: typeof signature === 'string' ? signature : undefined })
      response.writeHead(answers.shift() ?? 200).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
})
afterEach(() => new Promise((resolve) => server.close(resolve)))

const notifier = (target: Partial<NotifyTarget> = {}, retryMs: readonly number[] = [5, 5]): Notifier =>
  new Notifier({
    targets: [{ url, form: 'json', on: NOTIFICATION_KINDS, ...target }],
    url: null,
    secrets: [SECRET, 'old'],
    log: pino({ level: 'silent' }),
    retryMs,
  })

const report = (changes: Partial<RunReport> = {}, enriched = 3): RunReport =>
  ({
    run: 7,
    status: 'completed',
    reason: null,
    rows: { ...Object.fromEntries(ROW_STATES.map((state) => [state, 0])), picked: 1_234, enriched },
    lookups: { requested: 1_000 },
    requests: {},
    cells: {},
    duration_ms: 5,
    ...changes,
  }) as unknown as RunReport

const nightly = { trigger: 'schedule', sources: ['contacts'] } as const
const events = (): string[] => received.map((one) => (JSON.parse(one.body) as RunNotification).event)

test('a finished run is notified, signed over the exact bytes', async () => {
  const one = notifier()
  one.runEnded(report(), nightly)
  await one.close()
  expect(received).toHaveLength(1)
  const [{ body, signature } = { body: '', signature: undefined }] = received
  expect(verifyWebhook(body, signature, [SECRET])).toBe(true)
  expect(JSON.parse(body)).toMatchObject({
    event: 'completed',
    run: { id: 7, trigger: 'schedule', sources: ['contacts'], rows: { picked: 1_234 } },
  })
})

test('the outcome of a run determines the event', async () => {
  const one = notifier()
  one.runEnded(report({}, 0), nightly)
  one.runEnded(report({ status: 'budget_reached' }), nightly)
  one.runEnded(report({ status: 'unauthorized' }), nightly)
  one.runEnded(report({ status: 'interrupted' }), nightly)
  one.jobsOverdue(2)
  await one.close()
  expect(events().toSorted()).toEqual(['budget_reached', 'failed', 'jobs_overdue', 'no_matches'])
})

test('live sync notifies of failures only, other runs of the chosen events', async () => {
  const one = notifier({ on: ['failed', 'completed'] })
  one.runEnded(report(), { ...nightly, trigger: 'follow' })
  one.runEnded(report({ status: 'failed' }), { ...nightly, trigger: 'follow' })
  one.jobsOverdue(1)
  await one.close()
  expect(events()).toEqual(['failed'])
})

test('Slack gets one line, and no signature', async () => {
  const one = notifier({ form: 'slack' })
  one.runEnded(report({ status: 'budget_reached', reason: '9 rows were left out' }), nightly)
  await one.close()
  expect(received[0]?.signature).toBeUndefined()
  expect(JSON.parse(received[0]?.body ?? '')).toEqual({
    text: ':moneybag: Fillrate: run 7 (schedule, contacts) reached its budget: it enriched 3 of 1,234 rows with 1,000 lookups. 9 rows were left out',
  })
})

test('a failing target is retried with the same event, a limited number of times', async () => {
  answers = [500, 429]
  const one = notifier()
  one.jobsOverdue(1)
  await one.close()
  expect(new Set(received.map((each) => each.body)).size).toBe(1)
  expect(received).toHaveLength(3)
  answers = [503, 503, 503, 503]
  received = []
  const again = notifier()
  again.jobsOverdue(1)
  await again.close()
  expect(received).toHaveLength(3)
})

test('a rejection is not retried, and an unreachable target is no error', async () => {
  answers = [404]
  const refused = notifier()
  refused.jobsOverdue(1)
  await refused.close()
  expect(received).toHaveLength(1)
  const away = notifier({ url: 'http://127.0.0.1:1/hook' })
  away.jobsOverdue(1)
  await away.close()
})

test('a shutdown does not wait for a slow target', async () => {
  answers = [500]
  const one = notifier({}, [60_000])
  one.jobsOverdue(1)
  await expect.poll(() => received.length).toBe(1)
  await one.close(10)
  expect(received).toHaveLength(1)
})

test('an invalid URL is no error and is not logged', async () => {
  const lines: string[] = []
  const log = pino({ level: 'warn' }, { write: (line) => lines.push(line) })
  const unhandled: unknown[] = []
  const onUnhandled = (reason: unknown): unknown => unhandled.push(reason)
  process.on('unhandledRejection', onUnhandled)
  const target = { url: 'no-address/with-a-secret', form: 'json', on: NOTIFICATION_KINDS } as const
  const one = new Notifier({ targets: [target], url: null, secrets: [], log, retryMs: [1] })
  one.jobsOverdue(1)
  await one.close()
  // Reported after the promises that are resolved now.
  await new Promise((resolve) => setTimeout(resolve))
  process.off('unhandledRejection', onUnhandled)
  expect(unhandled).toEqual([])
  expect(lines).toHaveLength(1)
  expect(lines.join('')).toContain('notification failed')
  expect(lines.join('')).not.toContain('with-a-secret')
})
