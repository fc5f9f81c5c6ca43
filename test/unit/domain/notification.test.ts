import { expect, test } from 'vitest'
import { NOTIFICATION_SHAPE } from '../../../scripts/docs/notifications.ts'
import { signNotification } from '../../../src/daemon/notifier.ts'
import {
  type NotifiedRun,
  notificationRetryMs,
  toRunNotification,
  toRunTopic,
  toConditionNotification,
  toSlackText,
} from '../../../src/domain/notification.ts'
import { ROW_STATES } from '../../../src/domain/row.ts'
import type { Condition } from '../../../src/domain/condition.ts'

const origin = { environment: 'production', dashboardUrl: 'https://fillrate.example.com' }
const at = Date.parse('2026-11-22T22:20:00Z')
const refused: Condition & { id: number; endedAt: Date | null } = {
  id: 12,
  kind: 'key_refused',
  service: 'acme',
  source: null,
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

test('a condition says what happened, what it means and what to do, and where', () => {
  const notice = toConditionNotification(refused, null, origin, at)
  expect(notice).toMatchObject({
    event_id: `condition_began-12-${refused.since.getTime()}`,
    event: 'condition_began',
    at: '2026-11-22T22:14:00.000Z',
    environment: 'production',
    severity: 'error',
    link: 'https://fillrate.example.com/',
    duration_ms: null,
    condition: { kind: 'key_refused', service: 'acme', source: null, ended_at: null },
  })
  const text = toSlackText(notice)
  expect(text.split('\n')[0]).toMatch(/^:x: \*Fillrate \(production\)\*: acme rejects the API key/)
  expect(text).toContain('FILLRATE_ACME_API_KEY')
  expect(text).toContain('<https://fillrate.example.com/|Open the dashboard>')
})

test('its end says how long it lasted, and asks for nothing', () => {
  const ended = { ...refused, endedAt: new Date('2026-11-22T22:19:00Z') }
  const notice = toConditionNotification(ended, null, origin, at)
  expect(notice).toMatchObject({
    event: 'condition_ended',
    at: '2026-11-22T22:19:00.000Z',
    severity: 'info',
    action: null,
    duration_ms: 300_000,
  })
  expect(notice.title).toMatch(/^Over after 5 min: acme rejects/)
})

test('a condition of a run links to it, with the counts of its failures', () => {
  const notice = toConditionNotification({ ...refused, details: { run: 86 } }, run, origin, at)
  expect(notice).toMatchObject({ link: 'https://fillrate.example.com/runs/86', run })
  expect(toSlackText(notice)).toContain(
    '1,234 rows picked, 3 enriched, 0 waiting, 2 write_rejected, 12 failed, 1,000 lookups for 50.00 EUR.',
  )
})

test('what Slack reads as markup is escaped, and nothing is invented without an address or a name', () => {
  const notice = toConditionNotification(
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
  const notice = toRunNotification(
    { ...run, status: 'completed', reason: null },
    { endedAt: new Date(at), durationMs: 61_000 },
    origin,
  )
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
  const over = { ...refused, endedAt: new Date(at) }
  for (const notice of [
    toConditionNotification(refused, null, origin, at),
    toConditionNotification(over, run, { environment: null, dashboardUrl: null }, at),
    toConditionNotification({ ...refused, details: { run: 1 } }, { ...run, rows: null }, origin, at),
    toRunNotification(run, { endedAt: new Date(at), durationMs: 5 }, origin),
  ])
    expect(NOTIFICATION_SHAPE.safeParse(JSON.parse(JSON.stringify(notice))).error).toBeUndefined()
})
