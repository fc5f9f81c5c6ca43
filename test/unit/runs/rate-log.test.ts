import { describe, expect, test } from 'vitest'
import { RateLog } from '../../../src/runs/rate-log.ts'
import type { RateStatus } from '../../../src/domain/rate-status.ts'
import { formatLimit } from '../../../src/cli/views/rate-status.ts'

const calm: RateStatus = {
  state: 'fixed_window',
  limit: 60,
  windowMs: 3_000,
  windowAtMostMs: null,
  used: 0,
  permitted: null,
  utilisation: null,
  windowUsed: 0,
  nextWindowAt: null,
  nextWindowInMs: null,
  stallReason: null,
  stalledForMs: null,
  throttled: 0,
  sharedKey: false,
}

function logging() {
  const lines: string[] = []
  const write =
    (level: string) =>
    (_: unknown, text: string): void =>
      void lines.push(`${level} ${text.split(':')[0]}`)
  const log = { info: write('info'), warn: write('warn') }
  return {
    lines,
    rateLog: new RateLog(log as unknown as ConstructorParameters<typeof RateLog>[0], 'api 1a2b'),
  }
}

describe('rate log', () => {
  test('logs waits of more than ten seconds with their reason, and the same reason once in ten minutes', () => {
    const { lines, rateLog } = logging()
    const waiting = { ...calm, stallReason: 'the window is used up' }
    rateLog.observe({ ...waiting, stalledForMs: 9_000 }, 0)
    expect(lines).toEqual([])
    rateLog.observe({ ...waiting, stalledForMs: 10_500 }, 1_500)
    rateLog.observe({ ...waiting, stalledForMs: 12_000 }, 3_000)
    rateLog.observe({ ...waiting, stalledForMs: 11_000 }, 63_000)
    expect(lines).toEqual(['info calls wait'])
    rateLog.observe({ ...waiting, state: 'cooldown', stalledForMs: 11_000 }, 64_000)
    rateLog.observe({ ...waiting, state: 'cooldown', stalledForMs: 11_000 }, 700_000)
    expect(lines).toHaveLength(3)
  })

  test('logs that calls continue, only after a logged wait', () => {
    const { lines, rateLog } = logging()
    const waiting = { ...calm, stallReason: 'the window is used up' }
    rateLog.observe({ ...waiting, stalledForMs: 3_000 }, 0)
    rateLog.observe(calm, 1_500)
    expect(lines).toEqual([])
    rateLog.observe({ ...waiting, stalledForMs: 15_000 }, 20_000)
    rateLog.observe(calm, 21_500)
    rateLog.observe(calm, 23_000)
    expect(lines).toEqual(['info calls wait', 'info calls continue'])
  })

  test('logs a ban when it starts and ends, and another client', () => {
    const { lines, rateLog } = logging()
    rateLog.observe(calm, 0)
    rateLog.observe({ ...calm, state: 'banned', sharedKey: true }, 1)
    rateLog.observe({ ...calm, state: 'banned', sharedKey: true }, 2)
    rateLog.observe({ ...calm, sharedKey: true }, 3)
    expect(lines).toEqual([
      'warn the service has banned the key for a while (403 after 429)',
      'warn another client uses the same key',
      'info the service accepts the key again; calls continue',
    ])
  })
})

test('a window bound is shown as a bound, or not at all if there is none', () => {
  expect(formatLimit(60, 3_000)).toBe('60 calls in 3 s')
  expect(formatLimit(60, null, 427_000)).toBe('60 calls in at most 7 min 07 s')
  expect(formatLimit(60, null, null)).toBe('60 calls per window')
})
