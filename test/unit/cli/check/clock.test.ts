import { describe, expect, test } from 'vitest'
import { compareClocks, type ClockReading } from '../../../../src/cli/check/clock.ts'

const NOW = Date.UTC(2026, 0, 1)
const MINUTE = 60_000

/** A clock that is ahead by so much, sentAt over a line that takes 200 ms. */
const postgres = (ahead: number): ClockReading => ({
  whose: 'Postgres',
  timeMs: NOW + 100 + ahead,
  resolutionMs: 1,
  sentAt: NOW,
  receivedAt: NOW + 200,
})
/** It timeMs whole seconds only. */
const service = (ahead: number): ClockReading => ({
  ...postgres(ahead),
  whose: 'the service',
  timeMs: Math.floor((NOW + 100 + ahead) / 1_000) * 1_000,
  resolutionMs: 1_000,
})

describe('whose clock is off', () => {
  test.each([
    ['none', [postgres(0), service(0)], 'ok', 'agrees with Postgres and the service'],
    ['none within tolerance', [postgres(4_900), service(-4_900)], 'ok', 'agrees with'],
    ['none to hold it against', [], 'skipped', 'no other'],
    [
      'this machine',
      [postgres(-MINUTE), service(-MINUTE)],
      'warning',
      'this machine is 1 min ahead of Postgres and the service',
    ],
    [
      'Postgres',
      [postgres(MINUTE), service(0)],
      'warning',
      'Postgres is 1 min ahead of this machine and the service',
    ],
    [
      'the service',
      [postgres(0), service(-MINUTE)],
      'warning',
      'the service is 59 s behind this machine and Postgres',
    ],
    ['either', [postgres(-MINUTE)], 'warning', 'Postgres is 1 min behind this machine'],
    [
      'all',
      [postgres(-MINUTE), service(MINUTE)],
      'warning',
      'Postgres is 1 min behind this machine, the service 1 min ahead of it',
    ],
  ] as const)('%s', (_, readings, verdict, text) => {
    const finding = compareClocks(readings)
    expect(finding.verdict).toBe(verdict)
    expect(finding.text).toContain(text)
    expect(finding.todo === null).toBe(verdict !== 'warning')
  })
})
