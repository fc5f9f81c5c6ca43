import { expect, test } from 'vitest'
import { limitText } from '../../../src/http/dashboard/pages/overview.ts'
import { statesTable } from '../../../src/http/dashboard/components.ts'
import { buildUrl, html } from '../../../src/http/dashboard/html.ts'
import { renderMetrics } from '../../../src/http/metrics.ts'
import { WorkMetrics } from '../../../src/pipeline/metrics-recorder.ts'
import type { RateLimitReport, RateReport } from '../../../src/domain/report/status.ts'
import { ROW_STATES, type RowState } from '../../../src/domain/row.ts'
import { cache } from '../../../src/util/cached.ts'
import { EMPTY_METRICS } from '../../support/empty-metrics.ts'

test('interpolated values are escaped exactly once', () => {
  const evil = `"><script>alert('&')</script>`
  const escaped = '&quot;&gt;&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;'
  expect(
    html`<p title="${evil}">${[evil, [null, false, undefined, 0]]}${html`<b>${evil}</b>`}</p>`.text,
  ).toBe(`<p title="${escaped}">${escaped}0<b>${escaped}</b></p>`)
  expect(buildUrl('/row', { source: 'a&b', key: '["x","y=z"]', after: null })).toBe(
    '/row?source=a%26b&key=%5B%22x%22%2C%22y%3Dz%22%5D',
  )
})

test('a cached value is read once for concurrent callers, again when stale, and at once after a failure', async () => {
  let now = 0
  let reads = 0
  let fails = false
  const read = cache(
    async () => {
      reads++
      now += 200
      if (fails) throw new Error('away')
      return reads
    },
    { minAgeMs: 1_000, now: () => now },
  )
  expect(await Promise.all([read(), read(), read()])).toEqual([1, 1, 1])
  // Reading took 200 ms, so that it is good for ten times as long.
  now = 2_199
  expect(await read()).toBe(1)
  now = 2_201
  fails = true
  await expect(read()).rejects.toThrow('away')
  fails = false
  expect(await read()).toBe(3)
  read.invalidate()
  expect(await read()).toBe(4)
})

const LIMIT: RateLimitReport = {
  service: 'api.example.com:80 "x"\\',
  limit: 150,
  window_ms: 2_000,
  observed_at: new Date(0),
  status: null,
}
const STATUS: RateReport = {
  state: 'learnt',
  limit: 150,
  window_ms: 2_000,
  used: 900,
  permitted: 920,
  utilisation: 0.98,
  window_used: 143,
  next_window_at: null,
  stall_reason: null,
  throttled: 0,
  shared_key: false,
  overstated: null,
  beside: null,
  reported_at: new Date(0),
  live: true,
}

test.each([
  [true, 7],
  [false, 150],
])('the remaining limit is what a leader reported last, if it is active: %s', async (live, left) => {
  const rateLimits = [{ ...LIMIT, status: { ...STATUS, live } }]
  const text = await renderMetrics(new WorkMetrics(), {
    ...EMPTY_METRICS,
    data: { ...EMPTY_METRICS.data, rateLimits },
  })
  expect(text.split('\n')).toContain(
    String.raw`fillrate_rate_limit_remaining_requests{service="api.example.com:80 \"x\"\\"} ${left}`,
  )
})

test('the limit of a service says whether it is stated too high, and what to do', () => {
  const render = (overstated: RateReport['overstated']): string =>
    limitText({ ...LIMIT, status: { ...STATUS, overstated } }).toString()
  expect(render({ limit: 600, window_ms: 60_000, endpoint: null, granted: 100 })).toContain(
    'stated 600 calls in 1 min, the service grants about 100: change `rate.limit` of the service',
  )
  expect(render(null)).not.toContain('stated')
})

test('the rows by state add up to those picked', () => {
  const states = Object.fromEntries(ROW_STATES.map((state, n) => [state, n + 1])) as Record<RowState, number>
  const text = String(statesTable('Rows', states, () => null))
  const rows = [...text.matchAll(/<td class="n">(\d+)<\/td>/g)].map(([, count]) => Number(count))
  const sum = rows.pop()
  expect(rows).toHaveLength(ROW_STATES.length)
  expect(rows.reduce((all, count) => all + count, 0)).toBe(sum)
})
