import { expect, test } from 'vitest'
import { notification } from '../../../src/domain/report/notification.ts'
import {
  notificationRetryMs,
  toConditionNotification,
  toSlackText,
} from '../../../src/domain/notification.ts'
import type { Condition } from '../../../src/domain/condition.ts'

const dashboard = 'https://fillrate.example.com'
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
test('a condition says what happened, what it means and what to do, and where', () => {
  const notice = toConditionNotification(refused, dashboard, at)
  expect(notice).toMatchObject({
    event_id: `condition_began-12-${refused.since.getTime()}`,
    event: 'condition_began',
    at: '2026-11-22T22:14:00.000Z',
    severity: 'error',
    link: 'https://fillrate.example.com/',
    duration_ms: null,
    condition: { kind: 'key_refused', service: 'acme', source: null, ended_at: null },
  })
  const text = toSlackText(notice)
  expect(text.split('\n')[0]).toMatch(/^:x: \*Fillrate\*: acme rejects the API key/)
  expect(text).toContain('FILLRATE_ACME_API_KEY')
  expect(text).toContain('<https://fillrate.example.com/|Open the dashboard>')
})

test('its end says how long it lasted, and asks for nothing', () => {
  const ended = { ...refused, endedAt: new Date('2026-11-22T22:19:00Z') }
  const notice = toConditionNotification(ended, dashboard, at)
  expect(notice).toMatchObject({
    event: 'condition_ended',
    at: '2026-11-22T22:19:00.000Z',
    severity: 'info',
    action: null,
    duration_ms: 300_000,
  })
  expect(notice.title).toMatch(/^Over after 5 min: acme rejects/)
})

test('a condition of a run links to it', () => {
  const notice = toConditionNotification({ ...refused, details: { run: 86 } }, dashboard, at)
  expect(notice).toMatchObject({ link: 'https://fillrate.example.com/runs/86' })
})

test('what Slack reads as markup is escaped, and nothing is invented without an address', () => {
  const notice = toConditionNotification(
    { ...refused, details: { reason: '<!channel> & <http://x|y>' } },
    null,
    at,
  )
  expect(notice).toMatchObject({ link: null })
  const text = toSlackText(notice)
  expect(text).toContain('&lt;!channel&gt; &amp; &lt;http://x|y&gt;')
  expect(text).toMatch(/^:x: \*Fillrate\*: /)
  expect(text).not.toContain('<')
})

test('attempts spread from seconds to an hour', () => {
  expect([1, 2, 3, 4, 5, 6, 7, 30].map((n) => notificationRetryMs(n) / 1_000)).toEqual([
    10, 30, 60, 300, 900, 1_800, 3_600, 3_600,
  ])
})

test('what is sent is what docs/notifications.md describes', () => {
  const over = { ...refused, endedAt: new Date(at) }
  for (const notice of [
    toConditionNotification(refused, dashboard, at),
    toConditionNotification(over, null, at),
    toConditionNotification({ ...refused, details: { run: 1 } }, dashboard, at),
  ]) {
    const sent: unknown = JSON.parse(JSON.stringify(notice))
    expect(notification.parse(sent)).toEqual(sent)
  }
})
