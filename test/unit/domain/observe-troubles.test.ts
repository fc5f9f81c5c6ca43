import { describe, expect, test } from 'vitest'
import { observeTroubles } from '../../../src/domain/observe-troubles.ts'
import type { ObserverOptions, OwnTrouble, TroubleFacts } from '../../../src/domain/trouble-facts.ts'
import type { RateStatus } from '../../../src/domain/rate-status.ts'
import { QUEUED_REASON } from '../../../src/domain/schedule.ts'
import { describeTrouble } from '../../../src/domain/trouble.ts'

const NOW = new Date('2026-11-22T14:00:00Z')
const SCOPE = 'api.example.com 62af8704'
const ago = (seconds: number): Date => new Date(NOW.getTime() - seconds * 1_000)
const MINUTE = 60

const HEALTHY: TroubleFacts = {
  now: NOW,
  isReadOnly: false,
  waitingRows: 12,
  circuits: [],
  leaders: [],
  openTroubles: [],
  endedCauses: [],
  overdueJobs: { jobs: 0, since: null },
  scheduledRuns: [],
  changes: [],
  spentBudgets: [],
  failedRuns: [],
  rejectedWrites: [],
  hasDaemon: true,
}
const OPTIONS: ObserverOptions = { own: [], schedules: null }

const rate = (over: Partial<RateStatus>): RateStatus => ({
  state: 'steady',
  limit: 60,
  windowMs: 60_000,
  windowAtMostMs: null,
  used: 0,
  permitted: null,
  utilisation: null,
  windowUsed: 0,
  nextWindowAt: null,
  nextWindowInMs: null,
  stallReason: null,
  throttled: 0,
  sharedKey: false,
  ...over,
})
const leader = (status: Partial<RateStatus>): Partial<TroubleFacts> => ({
  leaders: [{ scope: SCOPE, status: rate(status) }],
})
const circuit = (over: Partial<TroubleFacts['circuits'][number]> = {}): Partial<TroubleFacts> => ({
  circuits: [
    {
      scope: SCOPE,
      openedAt: ago(90),
      probeAt: ago(-20),
      reason: 'connection refused',
      cause: 'unreachable',
      ...over,
    },
  ],
})
const failed = (over: Partial<TroubleFacts['failedRuns'][number]> = {}): Partial<TroubleFacts> => ({
  failedRuns: [
    {
      run: 7,
      sources: ['people'],
      scope: SCOPE,
      failedFor: null,
      reason: 'permission denied',
      finishedAt: ago(60),
      ...over,
    },
  ],
})
const refusedOver = (seconds: number): Partial<TroubleFacts> => ({
  endedCauses: [{ code: 'key_refused', subject: SCOPE, endedAt: ago(seconds) }],
})
const awayUntil = (seconds: number): Partial<TroubleFacts> => ({
  endedCauses: [{ code: 'database_away', subject: '', endedAt: ago(seconds) }],
})
const broken = (source: string): Partial<TroubleFacts> => ({
  openTroubles: [{ code: 'source_broken', subject: source, seenAt: ago(4) }],
})
const change = (over: Partial<TroubleFacts['changes'][number]>): Partial<TroubleFacts> => ({
  changes: [
    { source: 'people', count: 1_200, edits: 997, oldestEditAt: null, oldestImportAt: null, ...over },
  ],
})
const scheduled = (over: Partial<TroubleFacts['scheduledRuns'][number]>): Partial<TroubleFacts> => ({
  scheduledRuns: [
    { schedule: 'nightly', at: ago(6 * MINUTE), state: 'done', isHeld: false, reason: null, ...over },
  ],
})
/** Edits have waited for longer than live sync takes. */
const LATE = change({ oldestEditAt: ago(600) })
const FAILED_FOR_KEY = failed({ failedFor: 'key_refused' })
const own = (over: Partial<OwnTrouble>): Partial<ObserverOptions> => ({
  own: [{ code: 'key_refused', subject: SCOPE, details: {}, forMs: 60_000, seenAgoMs: 5_000, ...over }],
})
const waits = (stalledForMs: number, over: Partial<RateStatus> = {}): Partial<TroubleFacts> =>
  leader({ stallReason: 'the limit is used up', stalledForMs, ...over })
const SPENT = { source: null, limit: 1_000 }

type Case = readonly [
  name: string,
  facts: Partial<TroubleFacts>,
  codes: readonly string[],
  options?: Partial<ObserverOptions>,
]
const CASES: Readonly<Record<string, readonly Case[]>> = {
  'the service': [
    ['healthy', {}, []],
    ['unreachable', circuit(), ['service_down']],
    ['answers with errors', circuit({ cause: 'failing' as const, reason: 'HTTP 503' }), ['circuit_open']],
    ['down when the last process ended, not probed since', circuit({ probeAt: ago(121) }), []],
    ['still probed by a leader', { ...circuit({ probeAt: ago(121) }), ...leader({}) }, ['service_down']],
    [
      'without credits, looked at by no one for a day',
      circuit({ cause: 'out_of_credits', reason: null, probeAt: ago(86_400) }),
      ['out_of_credits'],
    ],
    [
      'without credits, so that calls wait',
      { ...circuit({ cause: 'out_of_credits' }), ...waits(76_000) },
      ['out_of_credits'],
    ],
  ],
  'the key': [
    ['refused', {}, ['key_refused'], own({})],
    ['banned', leader({ state: 'banned' }), ['banned']],
    ['banned, and calls wait for that', waits(700_000, { state: 'banned' }), ['banned']],
    ['shared', leader({ sharedKey: true }), ['shared_key']],
    [
      'banned for another client, which is not gone',
      leader({ state: 'banned', sharedKey: true }),
      ['banned', 'shared_key'],
    ],
  ],
  calls: [
    ['wait for the next window', waits(59_000), []],
    ['wait for longer than a window', waits(76_000), ['calls_waiting']],
    ['wait for a window of unknown length', waits(9_999, { windowMs: null }), []],
    ['wait for 10 s for a window of unknown length', waits(10_000, { windowMs: null }), ['calls_waiting']],
    ['wait for ten minutes of a day', waits(600_000, { windowMs: 86_400_000 }), ['calls_waiting']],
    ['have stopped, and none waits', leader({ stallReason: null, stalledForMs: 900_000 }), []],
  ],
  'live sync': [
    ['picks within two minutes', change({ oldestEditAt: ago(119) }), []],
    ['is behind', change({ oldestEditAt: ago(121) }), ['live_sync_behind']],
    ['reads an import', change({ oldestImportAt: ago(59 * MINUTE) }), []],
    ['is behind with an import', change({ oldestImportAt: ago(61 * MINUTE) }), ['live_sync_behind']],
    ['has spent its budget, and no edit waits', { spentBudgets: [SPENT], ...change({ edits: 0 }) }, []],
    [
      'has spent its budget, and edits wait',
      { spentBudgets: [SPENT], ...change({}) },
      ['live_sync_budget_spent'],
    ],
    ['is behind because its budget is spent', { spentBudgets: [SPENT], ...LATE }, ['live_sync_budget_spent']],
    [
      'is behind because the part of the budget of its source is spent',
      { spentBudgets: [{ ...SPENT, source: 'people' }], ...LATE },
      ['live_sync_budget_spent'],
    ],
    [
      'is behind, and the part of another source is spent',
      { spentBudgets: [{ ...SPENT, source: 'accounts' }], ...LATE },
      ['live_sync_behind'],
    ],
  ],
  'a failed run': [
    ['for a reason of its own', failed(), ['run_failed']],
    [
      'for a reason of its own, while the service is down',
      { ...circuit(), ...failed() },
      ['service_down', 'run_failed'],
    ],
    ['for a key, of which no process is left that knows it', FAILED_FOR_KEY, ['run_failed']],
    ['for a key that is still refused', FAILED_FOR_KEY, ['key_refused'], own({})],
    [
      'for a key that is still refused, as another process knows',
      { ...FAILED_FOR_KEY, openTroubles: [{ code: 'key_refused', subject: SCOPE, seenAt: ago(59) }] },
      [],
    ],
    [
      'for a key, and the process that knew it is gone',
      { ...FAILED_FOR_KEY, openTroubles: [{ code: 'key_refused', subject: SCOPE, seenAt: ago(60) }] },
      ['run_failed'],
    ],
    ['for a key a moment ago', failed({ failedFor: 'key_refused', finishedAt: ago(9) }), []],
    ['for a key that was mended since', { ...FAILED_FOR_KEY, ...refusedOver(20) }, []],
    ['for a key that was mended as the run ended', { ...FAILED_FOR_KEY, ...refusedOver(69) }, []],
    [
      'for a key that was mended before, and refused again',
      { ...FAILED_FOR_KEY, ...refusedOver(71) },
      ['run_failed'],
    ],
    [
      'for a key of another service',
      { ...failed({ failedFor: 'key_refused', scope: 'other 1' }), ...refusedOver(20) },
      ['run_failed'],
    ],
    [
      'for a service that is down',
      { ...circuit(), ...failed({ failedFor: 'service_down' }) },
      ['service_down'],
    ],
    [
      'for a service that no process has called since',
      { ...circuit({ probeAt: ago(3_600) }), ...failed({ failedFor: 'service_down' }) },
      ['service_down'],
    ],
    [
      'for a service that has answered since',
      {
        ...failed({ failedFor: 'circuit_open' }),
        endedCauses: [{ code: 'service_down', subject: SCOPE, endedAt: ago(5) }],
      },
      [],
    ],
    ['for Postgres, which is back', { ...failed({ failedFor: 'database_away' }), ...awayUntil(65) }, []],
  ],
  'what a cause explains': [
    ['calls wait while the key is refused', waits(76_000), ['key_refused'], own({})],
    ['calls wait for another client', waits(76_000, { sharedKey: true }), ['shared_key']],
    [
      'calls wait for another service',
      { ...circuit({ scope: 'other 1' }), ...waits(76_000) },
      ['service_down', 'calls_waiting'],
    ],
    ['edits wait while the service is down', { ...circuit(), ...LATE }, ['service_down']],
    ['edits of an outage are made up for', { ...awayUntil(119), ...LATE }, []],
    ['edits of an outage still wait two minutes later', { ...awayUntil(121), ...LATE }, ['live_sync_behind']],
    ['edits wait for the mend of their source', { ...broken('people'), ...LATE }, []],
    ['edits wait, and another source is broken', { ...broken('accounts'), ...LATE }, ['live_sync_behind']],
    [
      'edits of a source that was mended are made up for',
      { endedCauses: [{ code: 'source_broken', subject: 'people', endedAt: ago(119) }], ...LATE },
      [],
    ],
    ['a schedule is late for an outage', { ...awayUntil(60), ...scheduled({ state: 'waiting' }) }, []],
    [
      'a schedule and live sync wait for a daemon',
      { ...scheduled({ state: 'waiting' }), ...LATE, hasDaemon: false },
      ['schedule_late'],
    ],
  ],
  schedules: [
    ['done', scheduled({}), []],
    ['about to start', scheduled({ at: ago(299), state: 'waiting' }), []],
    ['late', scheduled({ state: 'waiting' }), ['schedule_late']],
    ['queued behind another run', scheduled({ state: 'waiting', reason: QUEUED_REASON }), []],
    [
      'queued, and no daemon is left',
      { ...scheduled({ state: 'waiting', reason: QUEUED_REASON }), hasDaemon: false },
      ['schedule_late'],
    ],
    ['running', scheduled({ state: 'running', isHeld: true }), []],
    ['abandoned', scheduled({ state: 'running' }), ['schedule_late']],
    [
      'due since, and recorded by no process',
      scheduled({}),
      ['schedule_late'],
      { schedules: new Map([['nightly', ago(301).getTime()]]) },
    ],
    ['due just now', scheduled({}), [], { schedules: new Map([['nightly', ago(1).getTime()]]) }],
    ['no longer configured', scheduled({ state: 'waiting' }), [], { schedules: new Map() }],
  ],
  'what only this process knows': [
    ['a refused reload', {}, ['reload_refused'], own({ code: 'reload_refused', subject: 'host 1' })],
    [
      'a refused reload hides no failed run',
      failed({ scope: 'host 1' }),
      ['reload_refused', 'run_failed'],
      own({ code: 'reload_refused', subject: 'host 1' }),
    ],
  ],
}

describe.each(Object.entries(CASES))('%s', (_, cases) => {
  for (const [name, facts, codes, options] of cases)
    test(`${name}`, () => {
      const observed = observeTroubles({ ...HEALTHY, ...facts }, { ...OPTIONS, ...options })
      expect(observed.map(({ code }) => code)).toEqual(codes)
      for (const { since } of observed) expect(since.getTime()).toBeLessThanOrEqual(NOW.getTime())
    })
})

test('a trouble says since when, how much waits, and when it is tried again', () => {
  const observe = (facts: Partial<TroubleFacts>, options: Partial<ObserverOptions> = {}) =>
    observeTroubles({ ...HEALTHY, ...facts }, { ...OPTIONS, ...options })[0]
  expect(observe(circuit())).toEqual({
    code: 'service_down',
    subject: SCOPE,
    since: ago(90),
    details: { reason: 'connection refused', waiting: 12, until: ago(-20).toISOString() },
  })
  expect(observe({}, own({ details: { reason: 'HTTP 401' } }))).toEqual({
    code: 'key_refused',
    subject: SCOPE,
    since: ago(60),
    knownAt: ago(5),
    details: { reason: 'HTTP 401', waiting: 12 },
  })
  expect(observe({ spentBudgets: [SPENT], ...change({}) })?.details).toEqual({
    limit: 1_000,
    waiting: 997,
    until: '2026-11-23T00:00:00.000Z',
  })
  expect(observe({ ...change({ oldestEditAt: ago(180) }), hasDaemon: false })?.details).toEqual({
    ms: 180_000,
    waiting: 1_200,
    reason: 'no daemon is running',
  })
  expect(observe(failed({ sources: ['a', 'b', 'c', 'd'] }))).toMatchObject({
    subject: '4 sources',
    since: ago(60),
  })
})

test('another client that stops all calls is said with how long nothing was called, and until when', () => {
  const texts = (status: Partial<RateStatus>): string[] =>
    observeTroubles({ ...HEALTHY, ...leader({ sharedKey: true, ...status }) }, OPTIONS).map(
      (one) => describeTrouble(one, NOW.getTime()).meaning,
    )
  const stalled = { stallReason: 'refused', nextWindowAt: NOW.getTime() + 48 * 60_000 }
  expect(texts({ ...stalled, stalledForMs: 12 * 60_000 })).toEqual([
    'No call has been permitted for 12 min; 12 rows are waiting. They continue by themselves in 48 min.',
  ])
  expect(texts({ ...stalled, stalledForMs: 2_000 })).toEqual([
    'Fillrate leaves room for it in the rate limit, so that runs take longer.',
  ])
})
