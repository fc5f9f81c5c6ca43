import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import {
  describeTrouble,
  type TroubleCode,
  type TroubleDetails,
  TROUBLES,
  troubleDurationMs,
} from '../../../src/domain/trouble.ts'

const codes = Object.keys(TROUBLES) as TroubleCode[]
const NOW = Date.UTC(2026, 10, 22, 14)
const FULL: TroubleDetails = {
  reason: 'connection refused',
  waiting: 2_220,
  limit: 400,
  run: 7,
  sources: ['people'],
  process: 'host-1 4711',
  until: new Date(NOW + 300_000).toISOString(),
  ms: 12_000,
}

test.each(codes)('%s is described in whole sentences, with and without details', (code) => {
  for (const details of [FULL, {}])
    for (const subject of ['api.example.com 62af8704', '']) {
      const { title, meaning, action } = describeTrouble({ code, subject, details }, NOW)
      expect(title).toMatch(/^[A-Z\w].*[^.]$/)
      for (const text of [meaning, action]) expect(text).toMatch(/^[A-Z\d`].*\.$/)
      expect([title, meaning, action].join(' ')).not.toMatch(/undefined|null|NaN|Invalid| {2}|\n/)
    }
})

/** Troubles whose subject is a service and its key. */
const ofScopes = [
  'service_down',
  'circuit_open',
  'out_of_credits',
  'key_refused',
  'banned',
  'shared_key',
  'calls_waiting',
] as const satisfies readonly TroubleCode[]

test.each(ofScopes)('%s of two services has two titles', (code) => {
  const [one, other] = ['acme.example a1', 'pdl.example a1'].map(
    (subject) => describeTrouble({ code, subject, details: FULL }, NOW).title,
  )
  expect(one).toContain('acme.example')
  expect(other).toContain('pdl.example')
})

test('a service that cannot be reached', () => {
  expect(describeTrouble({ code: 'service_down', subject: '127.0.0.1:9 62af', details: FULL }, NOW)).toEqual({
    title: 'Cannot reach 127.0.0.1:9 (connection refused)',
    meaning: '2,220 rows are waiting and will be retried automatically. Nothing is lost.',
    action:
      'Look at the status page of the service, and try its address from this machine. Fillrate tries again by itself in 5 min.',
  })
})

test('a time of the next try that is past is left out', () => {
  const details = { ...FULL, until: new Date(NOW - 5_000).toISOString() }
  expect(describeTrouble({ code: 'service_down', subject: '', details }, NOW).action).toMatch(/by itself\.$/)
})

test('a trouble lasts until it ends', () => {
  const since = new Date(NOW - 49_000)
  expect(troubleDurationMs({ since, endedAt: null }, NOW)).toBe(49_000)
  expect(troubleDurationMs({ since, endedAt: new Date(NOW - 9_000) }, NOW)).toBe(40_000)
})

test('docs/operations.md has a heading for every code', () => {
  const headings = [...readFileSync('docs/operations.md', 'utf8').matchAll(/^### (\w+_\w+|banned)$/gm)]
  expect(headings.map(([, code]) => code).toSorted()).toEqual(codes.toSorted())
})

test.each(['writes_rejected', 'source_broken', 'run_failed'] as const)(
  'the title of %s has the beginning of a reason that is a page long',
  (code) => {
    const details = { ...FULL, reason: 'the record is locked until the end of the quarter; '.repeat(20) }
    const { title } = describeTrouble({ code, subject: 'contacts', details }, NOW)
    expect(title).toContain('the record is locked until the end of the quarter; the record')
    expect(title.length).toBeLessThan(240)
  },
)
