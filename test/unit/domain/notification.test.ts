import { expect, test } from 'vitest'
import { NOTIFICATION_SHAPE } from '../../../scripts/docs/notifications.ts'
import { signNotification } from '../../../src/daemon/notifier.ts'
import {
  type NotifiedRun,
  notificationRetryMs,
  toRunNotification,
  toRunTopic,
  toSlackText,
  toTroubleNotification,
} from '../../../src/domain/notification.ts'
import { ROW_STATES } from '../../../src/domain/row.ts'
import type { Trouble } from '../../../src/domain/trouble.ts'

const origin = { environment: 'production', dashboardUrl: 'https://fillrate.example.com' }
const at = { eventId: '0197d7c4-0000-7000-8000-000000000000', now: Date.parse('2026-11-22T22:20:00Z') }
const refused: Trouble = {
  code: 'key_refused',
  subject: 'api.example.com 62af8704',
  severity: 'error',
  since: new Date('2026-11-22T22:14:00Z'),
  endedAt: null,
  details: { reason: 'HTTP 401' },
}
const zero = Object.fromEntries(ROW_STATES.map((state) => [state, 0])) as NotifiedRun['rows'] & object
const run: NotifiedRun = {
  id: 86,
  trigger: 'schedule',
  sources: ['people', 'companies'],
  status: 'failed',
  reason: 'column "titel" does not exist',
  rows: { ...zero, picked: 1_234, enriched: 3, failed: 12, write_rejected: 2 },
  lookups_requested: 1_000,
  cost: { amount: 50, currency: 'EUR' },
  cells_written: 7,
}

test('a trouble says what happened, what it means and what to do, and where', () => {
  const notice = toTroubleNotification(refused, null, origin, at)
  expect(notice).toMatchObject({
    event_id: at.eventId,
    event: 'trouble_began',
    at: '2026-11-22T22:14:00.000Z',
    environment: 'production',
    severity: 'error',
    link: 'https://fillrate.example.com/',
    duration_ms: null,
    trouble: { code: 'key_refused', subject: refused.subject, ended_at: null },
  })
  expect(notice.title).toContain('62af8704')
  const text = toSlackText(notice)
  expect(text.split('\n')[0]).toMatch(
    /^:x: \*Fillrate \(production\)\*: api\.example\.com rejects the API key/,
  )
  expect(text).toContain('FILLRATE_API_KEY')
  expect(text).toContain('<https://fillrate.example.com/|Open the dashboard>')
})

test('its end says how long it lasted, and asks for nothing', () => {
  const ended = { ...refused, endedAt: new Date('2026-11-22T22:19:00Z') }
  const notice = toTroubleNotification(ended, null, origin, at)
  expect(notice).toMatchObject({
    event: 'trouble_ended',
    at: '2026-11-22T22:19:00.000Z',
    severity: 'info',
    action: null,
    duration_ms: 300_000,
  })
  expect(notice.title).toMatch(/^Over after 5 min: api\.example\.com rejects/)
})

test('a trouble of a run links to it, with the counts of its failures', () => {
  const notice = toTroubleNotification({ ...refused, details: { run: 86 } }, run, origin, at)
  expect(notice).toMatchObject({ link: 'https://fillrate.example.com/runs/86', run })
  expect(toSlackText(notice)).toContain(
    '1,234 rows picked, 3 enriched, 0 waiting, 2 write_rejected, 12 failed, 1,000 lookups for 50.00 EUR.',
  )
})

test('what Slack reads as markup is escaped, and nothing is invented without an address or a name', () => {
  const notice = toTroubleNotification(
    { ...refused, details: { reason: '<!channel> & <http://x|y>' } },
    null,
    { environment: null, dashboardUrl: null },
    at,
  )
  expect(notice).toMatchObject({ link: null, environment: null })
  const text = toSlackText(notice)
  expect(text).toContain('&lt;!channel&gt; &amp; &lt;http://x|y&gt;')
  expect(text).toMatch(/^:x: \*Fillrate\*: /)
  expect(text).not.toContain('<')
})

test('a run is reported by whether it enriched rows; live sync and failures are not', () => {
  const rows = { picked: 5, enriched: 2 }
  expect(toRunTopic({ status: 'completed', rows }, 'schedule')).toBe('completed')
  expect(toRunTopic({ status: 'budget_reached', rows }, 'manual')).toBe('completed')
  expect(toRunTopic({ status: 'completed', rows: { ...rows, enriched: 0 } }, 'schedule')).toBe('no_matches')
  expect(toRunTopic({ status: 'completed', rows }, 'follow')).toBeNull()
  for (const status of ['failed', 'unauthorized', 'interrupted'] as const)
    expect(toRunTopic({ status, rows }, 'schedule')).toBeNull()
  const notice = toRunNotification({ ...run, status: 'completed', reason: null }, 61_000, origin, at)
  expect(notice).toMatchObject({
    event: 'run_completed',
    severity: 'info',
    title: 'Run 86 (schedule, people, companies) enriched 3 of 1,234 rows',
    link: 'https://fillrate.example.com/runs/86',
    duration_ms: 61_000,
  })
  expect(toSlackText(notice)).toMatch(/^:white_check_mark: .*\n.*\n<.*\|Open run 86>$/)
})

test('attempts spread from seconds to an hour', () => {
  expect([1, 2, 3, 4, 5, 6, 7, 30].map((n) => notificationRetryMs(n) / 1_000)).toEqual([
    10, 30, 60, 300, 900, 1_800, 3_600, 3_600,
  ])
})

test('the signature is that of the Standard Webhooks specification, for each secret, and covers the time', () => {
  // The example of the specification's own libraries.
  const [body, id, seconds] = ['{"test": 2432232314}', 'msg_p5jXN8AQM9LWM0D4loKWxJek', 1_614_265_330]
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  expect(signNotification(body, id, seconds, [secret])).toEqual({
    'webhook-id': id,
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  })
  const both = signNotification(body, id, seconds, [secret, 'plain text'])['webhook-signature'] ?? ''
  expect(both.split(' ')).toHaveLength(2)
  expect(signNotification(body, id, seconds + 1, [secret])['webhook-signature']).not.toBe(both.split(' ')[0])
  expect(signNotification(body, id, seconds, [])).not.toHaveProperty('webhook-signature')
})

test('what is sent is what docs/notifications.md describes', () => {
  const over = { ...refused, endedAt: new Date(at.now) }
  for (const notice of [
    toTroubleNotification(refused, null, origin, at),
    toTroubleNotification(over, run, { environment: null, dashboardUrl: null }, at),
    toTroubleNotification({ ...refused, details: { run: 1 } }, { ...run, rows: null }, origin, at),
    toRunNotification(run, 5, origin, at),
  ])
    expect(NOTIFICATION_SHAPE.safeParse(JSON.parse(JSON.stringify(notice))).error).toBeUndefined()
})
