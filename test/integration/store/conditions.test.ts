import { beforeEach, describe, expect, test } from 'vitest'
import { QUEUED_REASON } from '../../../src/domain/schedule.ts'
import { describeCondition } from '../../../src/domain/condition.ts'
import type { Observer } from '../../../src/store/condition-facts.ts'
import { readConditions, recordConditions, reportCondition } from '../../../src/store/conditions.ts'
import { useTestDatabase } from '../../support/database.ts'

// What Postgres shows of two services, of which one is at fault at a time, and a daemon that is alive.

const NIGHTLY = '0 2 * * * | people'
const UNKNOWN: Observer = { schedules: null }
const database = useTestDatabase()

beforeEach(async () => {
  await database.query(`truncate fillrate.conditions, fillrate.circuit_breakers, fillrate.rate_limits, fillrate.leases, fillrate.runs,
    fillrate.spend, fillrate.scheduled_runs, fillrate.changed_rows, fillrate.jobs, fillrate.rows, fillrate.row_counts, fillrate.changes,
    fillrate.processes, fillrate.services, fillrate.source_state restart identity cascade`)
  await database.query(`insert into fillrate.services (id, host, name) values (0, 'api.acme.example', 'acme'), (1, 'api.pdl.example', 'pdl');
    insert into fillrate.processes (owner, role, host, pid, version, node_version, config, started_at)
    values ('daemon', 'start', 'a', 1, '', '', '{}', now())`)
})

const ago = (interval: string): string => `now() - interval '${interval}'`
const circuit = (cause: string, { service = 0, probe = 'now()', opened = ago('90 seconds') } = {}): string =>
  `insert into fillrate.circuit_breakers (scope, service_id, opened_at, probe_at, backoff_ms, reason, cause)
   values ('scope ${service}', ${service}, ${opened}, ${probe}, 5000, 'HTTP 503', '${cause}')`
const leader = (status: object, service = 0): string =>
  `insert into fillrate.leases (scope, lease_token, leased_until, owner)
   values ('scope ${service}', gen_random_uuid(), now() + interval '1 hour', 'daemon');
   insert into fillrate.rate_limits (scope, service_id, "limit", observed_at, status, reported_at)
   values ('scope ${service}', ${service}, 60, now(), '${JSON.stringify({ state: 'steady', windowMs: 60_000, ...status })}', now())`
const waits = (stalledForMs: number, over: object = {}): string =>
  leader({ stallReason: 'the limit is used up', stalledForMs, ...over })
const failed = ({
  forKind = 'null',
  at = '1 minute',
  service = 0,
  sources = 'people',
  trigger = 'schedule',
  state = 'failed',
  options = '{}',
} = {}): string =>
  `insert into fillrate.runs (trigger, sources, state, reason, failed_for, failed_scope, scopes, owner, lease_token, leased_until, finished_at, options)
   values ('${trigger}', '{${sources}}', '${state}', 'permission denied', ${forKind}, 'scope ${service}', '{"${service}": "scope ${service}"}', 'x',
           gen_random_uuid(), now() + interval '1 hour', ${state === 'running' ? 'null' : ago(at)}, '${options}')`
const FOR_KEY = { forKind: `'key_refused'` }
const recorded = (
  kind: string,
  ended: string | null,
  about: { service?: string; source?: string } = {},
  seen = '1 second',
): string =>
  `insert into fillrate.conditions (kind, service, source, began_at, seen_at, ended_at, is_reported)
   values ('${kind}', ${about.service ? `'${about.service}'` : 'null'}, ${about.source ? `'${about.source}'` : 'null'},
           ${ago('1 day')}, ${ago(seen)}, ${ended === null ? 'null' : ago(ended)}, ${about.source !== undefined})`
const change = (at: string, isImport = false, source = 'people'): string =>
  `insert into fillrate.changed_rows (changed_at, source, keys, is_import) values (${ago(at)}, '${source}', '{1,2}', ${isImport})`
const scheduled = ({ at = '6 minutes', state = 'done', isHeld = false, reason = '' } = {}): string =>
  `insert into fillrate.scheduled_runs (schedule, at, sources, state, reason, leased_until, lease_token, owner, finished_at)
   values ('${NIGHTLY}', ${ago(at)}, '{people}', '${state}', nullif('${reason}', ''), ${isHeld ? `now() + interval '1 minute'` : state === 'running' ? 'now()' : 'null'},
           ${state === 'running' ? 'gen_random_uuid()' : 'null'}, ${state === 'running' ? `'x'` : 'null'}, ${state === 'done' ? 'now()' : 'null'})`
const spent = (bound: object, credits = 1_000): string =>
  `with r as (insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until, finished_at, options, budget_name, bound)
     values ('follow', '{people}', 'completed', 'x', gen_random_uuid(), now(), now(), '{"follow": true}',
             'follow ' || to_char(now() at time zone 'UTC', 'YYYY-MM-DD'),
             '${JSON.stringify({ isInCredits: false, limit: 1_000, services: {}, ...bound })}') returning id)
   insert into fillrate.spend (run_id, service_id, source, endpoint, credits) select id, 0, 'people', 'person', ${credits} from r`
const rejected = (run: number, count: number, written: number, changesOf = 'people'): string =>
  `insert into fillrate.runs (id, trigger, sources, state, owner, lease_token, leased_until, finished_at, options) overriding system value
     values (${run}, 'manual', '{people}', 'completed', 'x', gen_random_uuid(), now(), now(), '{}');
   insert into fillrate.rows (source, key, state, failure, reason, run_id, settled_at)
     select 'people', '${run}-' || n, 'write_rejected', 'write_rejected', 'check violated', ${run}, ${ago(`${run} minutes`)} from generate_series(1, ${count}) n;
   insert into fillrate.changes (run_id, source, key, before, after)
     select ${run}, '${changesOf}', n::text, '{}', '{}' from generate_series(1, ${written}) n`
const NO_DAEMON = 'delete from fillrate.processes'
/** What the daemon has in its configuration. */
const USES = `update fillrate.processes set config = '{"sources": {"companies": {"step": {"services": ["pdl"]}}, "both": {"step": {"services": ["acme", "pdl"]}}}}'`
const EDITS_LATE = change('10 minutes')

type Case = readonly [
  name: string,
  facts: readonly string[],
  conditions: readonly string[],
  observer?: Observer,
]
const CASES: Readonly<Record<string, readonly Case[]>> = {
  'a service': [
    ['healthy', [], []],
    ['unreachable', [circuit('unreachable')], ['service_failing acme']],
    [
      'answers with errors, and the other does not',
      [circuit('failing', { service: 1 })],
      ['service_failing pdl'],
    ],
    [
      'down when the last process ended, not probed since',
      [circuit('failing', { probe: ago('121 seconds') })],
      [],
    ],
    [
      'still probed by a leader',
      [circuit('failing', { probe: ago('121 seconds') }), leader({})],
      ['service_failing acme'],
    ],
    [
      'for which a run failed, not probed since',
      [
        circuit('failing', { probe: ago('1 hour'), opened: ago('2 hours') }),
        failed({ forKind: `'service_failing'` }),
      ],
      ['service_failing acme'],
    ],
    [
      'without credits, looked at by no one for a day',
      [circuit('out_of_credits', { probe: ago('1 day') })],
      ['out_of_credits acme'],
    ],
    [
      'that refuses the key, tried by no one for a day',
      [circuit('key_refused', { probe: ago('1 day') })],
      ['key_refused acme'],
    ],
    [
      'without credits, so that calls wait',
      [circuit('out_of_credits'), waits(76_000)],
      ['out_of_credits acme'],
    ],
    [
      'both, each with its own',
      [circuit('key_refused'), circuit('out_of_credits', { service: 1 })],
      ['key_refused acme', 'out_of_credits pdl'],
    ],
  ],
  throttled: [
    ['banned', [leader({ state: 'banned' })], ['throttled acme: banned']],
    ['another client uses the key', [leader({ sharedKey: true }, 1)], ['throttled pdl: shared_key']],
    ['waiting for the next window', [waits(59_000)], []],
    ['waiting for longer than a window', [waits(76_000)], ['throttled acme: limit']],
    ['waiting for a window of unknown length', [waits(9_999, { windowMs: null })], []],
    [
      'waiting for 10 s for a window of unknown length',
      [waits(10_000, { windowMs: null })],
      ['throttled acme: limit'],
    ],
    [
      'waiting for ten minutes of a day',
      [waits(600_000, { windowMs: 86_400_000 })],
      ['throttled acme: limit'],
    ],
    ['stopped, and no call waits', [leader({ stallReason: null, stalledForMs: 900_000 })], []],
    [
      'waiting while the other service is down',
      [waits(76_000), circuit('failing', { service: 1 })],
      ['service_failing pdl', 'throttled acme: limit'],
    ],
    [
      'waiting since the service is back',
      [recorded('service_failing', '70 seconds', { service: 'acme' }), waits(900_000)],
      [],
    ],
  ],
  'live sync': [
    ['picks within two minutes', [change('119 seconds')], []],
    ['is behind', [change('121 seconds')], ['late people: live_sync']],
    ['reads an import', [change('59 minutes', true)], []],
    ['is behind with an import', [change('61 minutes', true)], ['late people: live_sync']],
    [
      'is paused',
      [
        EDITS_LATE,
        `insert into fillrate.source_state (source, paused_at, paused_by) values ('people', now(), 'anna')`,
      ],
      [],
    ],
    ['has spent its budget, and no edit waits', [spent({}), change('10 minutes', true)], []],
    ['has spent its budget, and edits wait', [spent({}), EDITS_LATE], ['budget_used']],
    ['is behind, and its budget is not spent', [spent({}, 999), EDITS_LATE], ['late people: live_sync']],
    ['waits while the service is down', [circuit('failing'), EDITS_LATE], ['service_failing acme']],
    [
      'waits while one of its services is down',
      [USES, circuit('failing'), change('10 minutes', false, 'both')],
      ['service_failing acme'],
    ],
    [
      'is behind, and the service of another source is down',
      [USES, circuit('failing'), change('10 minutes', false, 'companies')],
      ['service_failing acme', 'late companies: live_sync'],
    ],
    ['makes up for an outage', [recorded('database_away', '119 seconds'), EDITS_LATE], []],
    [
      'is behind two minutes after an outage',
      [recorded('database_away', '121 seconds'), EDITS_LATE],
      ['late people: live_sync'],
    ],
    [
      'waits for the mend of its source',
      [recorded('source_broken', null, { source: 'people' }), EDITS_LATE],
      ['source_broken people'],
    ],
    [
      'is behind, and another source is broken',
      [recorded('source_broken', null, { source: 'accounts' }), EDITS_LATE],
      ['source_broken accounts', 'late people: live_sync'],
    ],
    [
      'makes up for a source that was mended',
      [recorded('source_broken', '119 seconds', { source: 'people' }), EDITS_LATE],
      [],
    ],
  ],
  'a failed run': [
    ['for a reason of its own', [failed()], ['run_failed people']],
    [
      'for a reason of its own, while the service is down',
      [circuit('failing'), failed()],
      ['service_failing acme', 'run_failed people'],
    ],
    ['for a key that is still refused', [circuit('key_refused'), failed(FOR_KEY)], ['key_refused acme']],
    ['for a key a moment ago', [failed({ ...FOR_KEY, at: '9 seconds' })], []],
    [
      'for a key that was mended since',
      [recorded('key_refused', '20 seconds', { service: 'acme' }), failed(FOR_KEY)],
      [],
    ],
    [
      'for a key that was mended as the run ended',
      [recorded('key_refused', '69 seconds', { service: 'acme' }), failed(FOR_KEY)],
      [],
    ],
    [
      'for a key that was mended before, and refused again',
      [recorded('key_refused', '71 seconds', { service: 'acme' }), failed(FOR_KEY)],
      ['run_failed acme people'],
    ],
    [
      'for a key of the other service',
      [recorded('key_refused', '20 seconds', { service: 'acme' }), failed({ ...FOR_KEY, service: 1 })],
      ['run_failed pdl people'],
    ],
    [
      'for Postgres, which is back',
      [recorded('database_away', '65 seconds'), failed({ forKind: `'database_away'` })],
      [],
    ],
    ['of live sync', [failed({ trigger: 'follow', options: '{"follow": true}' })], ['run_failed people']],
    ['that a user has started, and sees', [failed({ trigger: 'manual' })], []],
    [
      'before a good one of a user',
      [failed(), failed({ trigger: 'manual', state: 'completed', at: '0' })],
      [],
    ],
    [
      'before a good one of one source of two',
      [failed({ sources: 'people,accounts' }), failed({ state: 'completed', at: '0' })],
      ['run_failed people, accounts'],
    ],
    [
      'before good ones of each source',
      [
        failed({ sources: 'people,accounts' }),
        ...['people', 'accounts'].map((sources) => failed({ sources, state: 'completed', at: '0' })),
      ],
      [],
    ],
    [
      'before an interrupted one',
      [failed(), failed({ state: 'interrupted', at: '0' })],
      ['run_failed people'],
    ],
    [
      'before a dry one',
      [failed(), failed({ state: 'completed', at: '0', options: '{"dry": true}' })],
      ['run_failed people'],
    ],
    [
      'before live sync, which has written nothing yet',
      [failed(), failed({ trigger: 'follow', state: 'running' })],
      ['run_failed people'],
    ],
    [
      'before live sync, which has written',
      [
        failed(),
        failed({ trigger: 'follow', state: 'running' }),
        `insert into fillrate.changes (run_id, source, key, before, after) select max(id), 'people', '1', '{}', '{}' from fillrate.runs`,
      ],
      [],
    ],
  ],
  'a schedule': [
    ['done', [scheduled()], []],
    ['about to start', [scheduled({ at: '299 seconds', state: 'waiting' })], []],
    ['late', [scheduled({ state: 'waiting' })], [`late ${NIGHTLY}: schedule`]],
    ['queued behind another run', [scheduled({ state: 'waiting', reason: QUEUED_REASON })], []],
    [
      'queued, and no daemon is left',
      [scheduled({ state: 'waiting', reason: QUEUED_REASON }), NO_DAEMON],
      [`late ${NIGHTLY}: schedule`],
    ],
    ['running', [scheduled({ state: 'running', isHeld: true })], []],
    ['abandoned', [scheduled({ state: 'running' })], [`late ${NIGHTLY}: schedule`]],
    [
      'due since, and recorded by no process',
      [scheduled()],
      [`late ${NIGHTLY}: schedule`],
      { schedules: new Map([[NIGHTLY, Date.now() - 301_000]]) },
    ],
    ['due just now', [scheduled()], [], { schedules: new Map([[NIGHTLY, Date.now() - 1_000]]) }],
    ['no longer configured', [scheduled({ state: 'waiting' })], [], { schedules: new Map() }],
    ['late for an outage', [recorded('database_away', '1 minute'), scheduled({ state: 'waiting' })], []],
    [
      'and live sync wait for a daemon',
      [scheduled({ state: 'waiting' }), EDITS_LATE, NO_DAEMON],
      [`late ${NIGHTLY}: schedule`],
    ],
  ],
  'rejected rows': [
    ['four, all', [rejected(1, 4, 0)], []],
    ['five, all', [rejected(1, 5, 0)], ['writes_rejected people']],
    ['one in twenty', [rejected(1, 5, 95)], ['writes_rejected people']],
    ['less than one in twenty', [rejected(1, 5, 96)], []],
    [
      'of a nightly run, and live sync works',
      [rejected(1, 89, 111), rejected(2, 1, 400)],
      ['writes_rejected people'],
    ],
    [
      'each row of live sync after a good night',
      [rejected(1, 3, 1_000), ...[2, 3, 4, 5, 6].map((run) => rejected(run, 1, 0))],
      ['writes_rejected people'],
    ],
    ['odd rows of many runs', [1, 2, 3, 4, 5, 6].map((run) => rejected(run, 1, 100)), []],
  ],
  'what else': [
    [
      'jobs past their deadline, of one service',
      [
        `insert into fillrate.jobs (key, service_id, job_id, state, size, lookup_ids, deadline_at, submitted_at)
        values (gen_random_uuid(), 1, 'j', 'submitted', 1, '{1}', ${ago('1 minute')}, ${ago('1 hour')})`,
      ],
      ['jobs_overdue pdl'],
    ],
    [
      'Postgres refuses the statements of a process',
      [`update fillrate.processes set refused = '53100', refused_at = now()`],
      ['database_away'],
    ],
    [
      'Postgres has refused them',
      [`update fillrate.processes set refused = '53100', refused_at = ${ago('11 seconds')}`],
      [],
    ],
    [
      'the reader knows that Postgres takes no writes, and what it delays is no condition',
      [EDITS_LATE],
      ['database_away'],
      { schedules: null, outage: { details: { sqlstate: '25006' }, forMs: 60_000 } },
    ],
    [
      'seen a moment ago, as it comes and goes',
      [recorded('throttled', null, { service: 'acme' }, '5 seconds')],
      ['throttled acme'],
    ],
    ['seen six seconds ago', [recorded('throttled', null, { service: 'acme' }, '7 seconds')], []],
  ],
}

describe.each(Object.entries(CASES))('%s', (_, cases) => {
  for (const [name, facts, expected, observer = UNKNOWN] of cases)
    test(`${name}`, async () => {
      for (const fact of facts) await database.query(fact)
      const conditions = await readConditions(database.db, observer)
      const texts = conditions.map(({ kind, service, source, details: { cause } }) => {
        const about = [kind, service, source].filter((part) => part !== null).join(' ')
        return kind === 'throttled' || kind === 'late' ? [about, cause].filter(Boolean).join(': ') : about
      })
      expect(texts).toEqual(expected)
      for (const { since } of conditions) expect(since.getTime()).toBeLessThanOrEqual(Date.now() + 1_000)
    })
})

test('a condition says since when, how much waits for its service, and when it is tried again', async () => {
  await database.query(`${circuit('unreachable', { probe: `now() + interval '5 minutes'` })};
    insert into fillrate.row_counts (source, state, rows) values ('both', 'waiting', 12), ('companies', 'waiting', 3), ('retired', 'waiting', 9)`)
  await database.query(USES)
  const [condition] = await readConditions(database.db, UNKNOWN)
  expect(condition).toMatchObject({ details: { reason: 'HTTP 503', waiting: 12, cause: 'unreachable' } })
  expect(Date.now() - (condition?.since.getTime() ?? 0)).toBeGreaterThan(85_000)
  expect(condition && describeCondition(condition, Date.now())).toMatchObject({
    meaning: expect.stringContaining('; 12 rows wait, and will be retried'),
    mend: expect.stringContaining('now and then in 5 min.'),
  })
})

test('what holds is recorded once, whoever looks, keeps its latest details, and ends once', async () => {
  const record = () => recordConditions(database.db, UNKNOWN)
  const count = async () => {
    const changed = (await Promise.all([record(), record(), record()])).flat()
    const ended = changed.filter(({ endedAt }) => endedAt !== null).length
    return { begun: changed.length - ended, ended }
  }
  await database.query(circuit('failing'))
  expect(await count()).toEqual({ begun: 1, ended: 0 })
  await database.query(`update fillrate.circuit_breakers set reason = 'HTTP 502';
    update fillrate.conditions set seen_at = ${ago('5 seconds')}`)
  expect(await count()).toEqual({ begun: 0, ended: 0 })
  const stored = await database.query(
    `select details ->> 'reason' as reason, seen_at > now() - interval '2 seconds' as seen from fillrate.conditions`,
  )
  expect(stored).toEqual([{ reason: 'HTTP 502', seen: true }])
  await database.query(
    `delete from fillrate.circuit_breakers; update fillrate.conditions set seen_at = ${ago('7 seconds')}`,
  )
  expect(await count()).toEqual({ begun: 0, ended: 1 })
  expect(await readConditions(database.db, UNKNOWN)).toEqual([])
})

test('a late schedule is not over for a process that does not know its schedules yet', async () => {
  const known = { schedules: new Map([[NIGHTLY, Date.now() - 3_600_000]]) }
  await database.query(scheduled({ at: '3 days' }))
  expect(await recordConditions(database.db, known)).toMatchObject([{ kind: 'late', endedAt: null }])
  await database.query(`update fillrate.conditions set seen_at = ${ago('20 seconds')}`)
  expect(await recordConditions(database.db, UNKNOWN)).toEqual([])
  await database.query('update fillrate.scheduled_runs set at = now()')
  expect(await recordConditions(database.db, known)).toMatchObject([
    { kind: 'late', endedAt: expect.any(Date) },
  ])
})

test('what a part of the program reports lasts until it reports the end, and hides what Postgres shows of the same', async () => {
  const report = (reason: string | null) =>
    reportCondition(database.db, 'late', 'people', reason === null ? null : { cause: 'triggers', reason })
  expect(await report('a')).toMatchObject([{ endedAt: null }])
  expect(await report('b')).toEqual([])
  await database.query(
    `${EDITS_LATE}; update fillrate.conditions set seen_at = ${ago('1 hour')}, began_at = ${ago('2 hours')}`,
  )
  expect(await recordConditions(database.db, UNKNOWN)).toEqual([])
  expect(await readConditions(database.db, UNKNOWN)).toMatchObject([
    { kind: 'late', details: { cause: 'triggers', reason: 'b' } },
  ])
  expect(await report(null)).toMatchObject([{ endedAt: expect.any(Date) }])
  expect(await report(null)).toEqual([])
  expect(await readConditions(database.db, UNKNOWN)).toMatchObject([{ details: { cause: 'live_sync' } }])
})
