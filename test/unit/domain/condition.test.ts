import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parseCommandLine } from '../../../src/cli/cli.ts'
import {
  CONDITION_KINDS,
  type ConditionDetails,
  type ConditionKind,
  describeCondition,
  describeEnd,
  severityOf,
} from '../../../src/domain/condition.ts'

const NOW = Date.UTC(2026, 10, 22, 14)
const FULL: ConditionDetails = {
  reason: 'connection refused',
  waiting: 2_220,
  limit: 400,
  run: 7,
  until: new Date(NOW + 300_000).toISOString(),
  ms: 12_000,
}
/** The forms that a kind has. */
const CAUSES: Partial<Record<ConditionKind, readonly string[]>> = {
  service_failing: ['unreachable', 'failing'],
  throttled: ['banned', 'shared_key', 'limit'],
  late: ['schedule', 'live_sync', 'triggers'],
}
const FORMS = CONDITION_KINDS.flatMap((kind) =>
  (CAUSES[kind] ?? [undefined]).map((cause) => [kind, cause] as const),
)

test.each(FORMS)('%s (%s) is described in whole sentences, with and without details', (kind, cause) => {
  for (const details of [FULL, {}])
    for (const name of ['acme', null]) {
      const condition = { kind, service: name, source: name, details: { ...details, cause } }
      const { title, meaning, mend, proof } = describeCondition(condition, NOW)
      expect(title).toMatch(/^[\w].*[^.]$/)
      for (const text of [meaning, mend]) expect(text).toMatch(/^[A-Z\d`].*\.$/)
      parseCommandLine(/^`fillrate (.*)`$/.exec(proof)?.[1]?.split(' ') ?? ['none'])
      expect([title, meaning, mend, describeEnd(condition, 1_000)].join(' ')).not.toMatch(
        /undefined|null|NaN|Invalid| {2}|\n/,
      )
    }
})

test.each(FORMS.filter(([kind]) => /service|key|credits|throttled|jobs/.test(kind)))(
  '%s (%s) of two services has two titles',
  (kind, cause) => {
    const titles = ['acme', 'pdl'].map(
      (service) => describeCondition({ kind, service, source: null, details: { ...FULL, cause } }, NOW).title,
    )
    expect(titles[0]).toContain('acme')
    expect(titles[1]).toContain('pdl')
  },
)

test('a service that cannot be reached, in words', () => {
  const details = { ...FULL, cause: 'unreachable' }
  expect(
    describeCondition({ kind: 'service_failing', service: '127.0.0.1:9', source: null, details }, NOW),
  ).toEqual({
    title: 'Cannot reach 127.0.0.1:9 (connection refused)',
    meaning:
      'Calls have stopped, so that it can recover; 2,220 rows wait, and will be retried automatically. Nothing is lost.',
    mend: 'Look at the status page of the service, and try its address from this machine. Fillrate tries a single call now and then in 5 min.',
    proof: '`fillrate check --call email=ADDRESS`',
  })
})

test('what only slows is a warning, and what a person must mend an error', () => {
  const severity = (kind: ConditionKind, cause?: string) => severityOf({ kind, details: { cause } })
  expect(severity('throttled', 'banned')).toBe('error')
  expect(severity('throttled', 'shared_key')).toBe('warning')
  expect(severity('late', 'schedule')).toBe('error')
  expect(severity('late', 'live_sync')).toBe('warning')
})

test('another client that stops all calls is described with how long nothing was called, and until when', () => {
  const meaning = (details: ConditionDetails) =>
    describeCondition(
      { kind: 'throttled', service: 'acme', source: null, details: { cause: 'shared_key', ...details } },
      NOW,
    ).meaning
  expect(meaning({ ms: 12 * 60_000, waiting: 12, until: new Date(NOW + 48 * 60_000).toISOString() })).toBe(
    'No call has been permitted for 12 min; 12 rows wait. They continue by themselves in 48 min.',
  )
  expect(meaning({})).toBe('Fillrate leaves room for it in the rate limit, so that runs take longer.')
})

test('docs/operations.md has a heading for every kind', () => {
  const headings = readFileSync('docs/operations.md', 'utf8').match(/(?<=^### )[a-z_]+$/gm) ?? []
  expect(
    headings.filter((one) => (CONDITION_KINDS as readonly (string | undefined)[]).includes(one)).toSorted(),
  ).toEqual(CONDITION_KINDS.toSorted())
})

test.each(['writes_rejected', 'source_broken', 'run_failed'] as const)(
  'the title of %s has the beginning of a reason that is a page long',
  (kind) => {
    const details = { ...FULL, reason: 'the record is locked until the end of the quarter; '.repeat(20) }
    const { title } = describeCondition({ kind, service: null, source: 'contacts', details }, NOW)
    expect(title).toContain('the record is locked until the end of the quarter; the record')
    expect(title.length).toBeLessThan(240)
  },
)
