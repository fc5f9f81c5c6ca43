import { sql } from 'kysely'
import pino from 'pino'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { readTroubles } from '../../../src/actions/troubles.ts'
import { OwnTroubles } from '../../../src/daemon/own-troubles.ts'
import { TroubleTicker, type TroubleWatchOptions } from '../../../src/daemon/trouble-watch.ts'
import { type Database, openDatabase } from '../../../src/store/open.ts'
import { listOpenTroubles, listRecentTroubles, type QueueNotifications } from '../../../src/store/troubles.ts'
import { Cable } from '../../support/cable.ts'
import { useTestDatabase } from '../../support/database.ts'

const SCOPE = 'api.example.com 62af8704'
const NIGHTLY = '0 2 * * * | people'

const database = useTestDatabase()
beforeEach(() =>
  database.query(`truncate fillrate.troubles, fillrate.circuit_breakers, fillrate.rate_limits, fillrate.leases, fillrate.runs,
         fillrate.spend, fillrate.scheduled_runs, fillrate.changed_rows, fillrate.jobs, fillrate.rows,
         fillrate.changes, fillrate.processes, fillrate.notifications cascade`),
)

/** A process that watches, with the lines that it logs. */
function startProcess(
  db: Database = database.db,
  options: Partial<Pick<TroubleWatchOptions, 'notifier'>> = {},
) {
  const lines: Record<string, unknown>[] = []
  const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>) })
  const own = new OwnTroubles()
  const ticker = new TroubleTicker({ db, log, own, schedules: () => new Map([[NIGHTLY, null]]), ...options })
  return {
    own,
    lines,
    tick: () => ticker.tick(),
    said: () => lines.map(({ event, code }) => `${event} ${code}`),
  }
}
type Watched = ReturnType<typeof startProcess>
const tickAll = (processes: readonly Watched[]) => Promise.all(processes.map(({ tick }) => tick()))
const allLines = (processes: readonly Watched[]) => processes.flatMap(({ said }) => said()).toSorted()

const register = (owner: string) =>
  database.query(`insert into fillrate.processes (owner, role, host, pid, version, node_version, config, started_at)
         values ('${owner}', 'start', 'a', 1, '', '', '{}', now())`)

/** A change of a contact that live sync has not picked yet. */
const EDITED = `insert into fillrate.changed_rows (changed_at, source, keys, is_import) values (now(), 'contacts', '{1}', false)`

/** Faults as they are stored, and how each ends. Those of a day on call are begun for real by day.test.ts and its like. */
const FAULTS: Readonly<Record<string, { readonly begin: string; readonly end: string }>> = {
  service_down: {
    begin: `insert into fillrate.circuit_breakers (scope, probe_at, backoff_ms, reason, cause)
            values ('${SCOPE}', now() + interval '20 seconds', 5000, 'connection refused', 'unreachable')`,
    end: 'delete from fillrate.circuit_breakers',
  },
  shared_key: {
    begin: leaderReports(`{"state": "steady", "sharedKey": true}`),
    end: 'delete from fillrate.leases',
  },
  calls_waiting: {
    begin: leaderReports(
      `{"state": "steady", "windowMs": 2000, "stallReason": "the limit is used up", "stalledForMs": 11000, "nextWindowAt": null}`,
    ),
    end: 'delete from fillrate.leases',
  },
  live_sync_budget_spent: {
    begin: `with c as (${EDITED}), r as (${liveRun(`{"isInCredits": false, "limit": 1000, "sources": {}, "services": {}}`)}) ${spend('contacts', 1_000)}`,
    end: 'delete from fillrate.spend',
  },
  'live_sync_budget_spent of contacts': {
    begin: `with c as (${EDITED}), r as (${liveRun(`{"isInCredits": false, "limit": 1000, "sources": {"contacts": 300, "people": 500}, "services": {}}`)})
            ${spend('contacts', 300)}`,
    end: 'delete from fillrate.spend',
  },
  run_failed: {
    begin: endedRun('failed', `'schedule'`, `'{}', '{"status": "failed"}'`),
    end: endedRun('completed', `'schedule'`, `'{}', '{"status": "completed"}'`),
  },
}

function leaderReports(status: string): string {
  return `with l as (insert into fillrate.leases (scope, lease_token, leased_until, owner)
                     values ('${SCOPE}', gen_random_uuid(), now() + interval '1 hour', 'another process'))
          insert into fillrate.rate_limits (scope, "limit", observed_at, status, reported_at)
          values ('${SCOPE}', 60, now(), '${status}', now())`
}

function liveRun(bound: string): string {
  return `insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until, finished_at, options, budget_name, bound)
          select 'follow', '{people}', 'completed', 'x', gen_random_uuid(), now(), now(), '{"follow": true}',
                 'follow ' || to_char(now() at time zone 'UTC', 'YYYY-MM-DD'), '${bound}' returning id`
}

function spend(source: string, credits: number): string {
  return `insert into fillrate.spend (run_id, service_id, source, endpoint, credits) select id, 0, '${source}', 'person', ${credits} from r`
}

function endedRun(state: string, trigger: string, rest: string): string {
  return `insert into fillrate.runs (failed_scope, trigger, sources, state, owner, lease_token, leased_until, finished_at, options, totals)
          select '${SCOPE}', ${trigger}, '{people}', '${state}', 'x', gen_random_uuid(), now(), now(), ${rest}`
}

test.each(Object.entries(FAULTS))(
  '%s begins once and ends once, with two processes',
  async (name, { begin, end }) => {
    const [code = ''] = name.split(' ')
    const processes = [startProcess(), startProcess()]
    await tickAll(processes)
    expect(allLines(processes)).toEqual([])
    await database.query(begin)
    // A terminal sees it too, before a process has recorded it.
    const observer = { owner: '', own: [], schedules: new Map([[NIGHTLY, null]]) }
    expect(await readTroubles(database.db, observer)).toMatchObject([{ code, endedAt: null }])
    for (let n = 0; n < 2; n++) await tickAll(processes)
    expect(allLines(processes)).toEqual([`trouble_began ${code}`])
    expect(await listOpenTroubles(database.db)).toMatchObject([{ code }])

    await database.query(end)
    await database.query(
      `update fillrate.troubles set seen_at = seen_at - interval '3 minutes', began_at = began_at - interval '5 minutes'`,
    )
    for (let n = 0; n < 2; n++) await tickAll(processes)
    expect(allLines(processes)).toEqual([`trouble_began ${code}`, `trouble_ended ${code}`])
    expect(await listOpenTroubles(database.db)).toEqual([])
    expect(await readTroubles(database.db, observer)).toEqual([])
  },
)

test.each(['calls_waiting', 'shared_key'])(
  '%s is held from when it was seen last, and not from when that was stored last',
  async (code) => {
    const watched = startProcess()
    await database.query(FAULTS[code]?.begin ?? '')
    await watched.tick()
    await database.query(
      `update fillrate.troubles set seen_at = now() - interval '7 s', began_at = now() - interval '9 s'`,
    )
    await watched.tick()
    expect(
      await database.query(`select from fillrate.troubles where seen_at > now() - interval '7 s'`),
    ).toHaveLength(1)
    expect(watched.said()).toEqual([`trouble_began ${code}`])
  },
)

test('the log says what it means, what to do, and in the end how long it lasted', async () => {
  const watched = startProcess()
  await database.query(FAULTS['service_down']?.begin ?? '')
  await watched.tick()
  await database.query(`delete from fillrate.circuit_breakers`)
  await database.query(
    `update fillrate.troubles set seen_at = seen_at - interval '11 s', began_at = began_at - interval '49 s'`,
  )
  await watched.tick()
  expect(watched.lines).toMatchObject([
    {
      level: 50,
      msg: 'Cannot reach api.example.com (connection refused)',
      subject: SCOPE,
      meaning: '0 rows are waiting and will be retried automatically. Nothing is lost.',
      action: expect.stringContaining('Look at the status page'),
    },
    { level: 30, ms: expect.any(Number), msg: expect.stringMatching(/^Over after 49 s: Cannot reach/) },
  ])
})

test('a trouble is notified of by a process that knows whom, whichever process has seen it begin and end', async () => {
  const queued: string[] = []
  const queue: QueueNotifications = async (_, { begun, ended }) => {
    queued.push(...begun.map(({ code }) => `begin ${code}`), ...ended.map(({ code }) => `end ${code}`))
  }
  let isLoaded = false
  // The daemon sees what holds at its start before it has read its configuration, and so whom to notify.
  const daemon = startProcess(database.db, {
    notifier: () => (isLoaded ? { queueTroubles: queue, tellDirectly: async () => true } : null),
  })
  const run = startProcess()
  run.own.raise('key_refused', SCOPE, {})
  await run.tick()
  await daemon.tick()
  expect(queued).toEqual([])
  isLoaded = true
  await daemon.tick()
  await daemon.tick()
  expect(queued).toEqual(['begin key_refused'])
  run.own.clear('key_refused')
  await run.tick()
  for (let n = 0; n < 2; n++) await Promise.all([daemon.tick(), daemon.tick()])
  expect(queued).toEqual(['begin key_refused', 'end key_refused'])

  // What was over before anyone could be notified is no news.
  run.own.raise('key_refused', SCOPE, {})
  await run.tick()
  await database.query(`update fillrate.troubles set began_at = now() - interval '1 hour', ended_at = now() - interval '6 min'
                where ended_at is null`)
  await daemon.tick()
  expect(queued).toHaveLength(2)
})

test('after an outage of Postgres the first process that looks does not end what another one knows', async () => {
  const [knows, looks] = [startProcess(), startProcess()]
  knows.own.raise('reload_refused', 'a:2', { reason: 'no such column', process: 'a:2' })
  await tickAll([knows, looks])
  const tickLater = async (ms: number): Promise<void> => {
    await database.query(
      `update fillrate.troubles set seen_at = now() - interval '90 s', began_at = now() - interval '2 min'`,
    )
    const now = performance.now()
    const clock = vi.spyOn(performance, 'now').mockReturnValue(now + ms)
    await looks.tick()
    clock.mockRestore()
  }
  await tickLater(90_000)
  expect(await listOpenTroubles(database.db)).toMatchObject([{ code: 'reload_refused' }])
  await knows.tick()
  expect(
    await database.query(`select from fillrate.troubles where seen_at > now() - interval '20 s'`),
  ).toHaveLength(1)
  // The one that knows it is gone.
  await tickLater(115_000)
  await tickLater(140_000)
  expect(await listOpenTroubles(database.db)).toHaveLength(1)
  await tickLater(155_000)
  expect(await listOpenTroubles(database.db)).toEqual([])
})

test('the rows that wait are those of sources that a living process has in its configuration', async () => {
  await database.query(`insert into fillrate.row_counts (source, state, run_id, rows)
    values ('people', 'waiting', 1, 3), ('retired', 'waiting', 1, 3)`)
  onTestFinished(async () => void (await database.query('delete from fillrate.row_counts')))
  const observer = { own: [], schedules: null }
  const waiting = async (): Promise<unknown> =>
    (await readTroubles(database.db, observer))[0]?.details.waiting
  await database.query(FAULTS['service_down']?.begin ?? '')
  expect(await waiting()).toBe(6)
  await register('alive')
  await database.query(`update fillrate.processes set config = '{"sources": {"people": {}}}'`)
  expect(await waiting()).toBe(3)
})

test('a refused key is one trouble, and ends for all processes when any call with it is accepted, or when all are gone', async () => {
  const processes = [startProcess(), startProcess()]
  const [one, other] = processes as [Watched, Watched]
  for (const { own } of processes) await register(own.owner)
  for (const { own } of processes) own.raise('key_refused', SCOPE, { reason: 'HTTP 401' })
  await tickAll(processes)
  expect(await listOpenTroubles(database.db)).toMatchObject([
    { code: 'key_refused', details: { reason: 'HTTP 401' } },
  ])
  // Each knows it itself, and says so.
  expect(allLines(processes)).toEqual(['trouble_began key_refused', 'trouble_began key_refused'])
  // Another key of the same service proves nothing.
  const third = startProcess()
  third.own.acceptKey('api.example.com ffffffff')
  await third.tick()
  await tickAll(processes)
  expect(await listOpenTroubles(database.db)).toHaveLength(1)
  const tries = other.own.keyAccepted.listen()
  one.own.acceptKey(SCOPE)
  await one.tick()
  await other.tick()
  expect(allLines(processes).slice(2)).toEqual(['trouble_ended key_refused', 'trouble_ended key_refused'])
  expect(processes.flatMap(({ own }) => own.list())).toEqual([])
  // What waits to try the key again goes on at once.
  await tries.wait(600_000, new AbortController().signal)
  // A call that was accepted before the key was refused again proves nothing.
  other.own.raise('key_refused', SCOPE, {})
  await tickAll([other, one])
  await tickAll([one, other])
  expect(await listOpenTroubles(database.db)).toHaveLength(1)
  other.own.clear('key_refused')
  await other.tick()
  expect(await listRecentTroubles(database.db, 10)).toHaveLength(2)

  // The only process that knew it dies.
  other.own.raise('key_refused', SCOPE, {})
  await other.tick()
  await one.tick()
  expect(await listOpenTroubles(database.db)).toHaveLength(1)
  await database.query(
    `update fillrate.troubles set seen_at = now() - interval '61 s', began_at = now() - interval '2 min' where ended_at is null`,
  )
  await one.tick()
  expect(await listOpenTroubles(database.db)).toEqual([])
})

test.each([
  ['has ended', 'delete from fillrate.processes'],
  [
    'was killed, and has not reported for half a minute',
    `update fillrate.processes set seen_at = now() - interval '31 seconds'`,
  ],
])(
  'a key that was replaced ends with the first accepted call of the new one, once its process %s',
  async (_, end) => {
    const former = startProcess()
    await register(former.own.owner)
    former.own.raise('key_refused', SCOPE, { reason: 'HTTP 401' })
    await former.tick()
    const next = startProcess()
    await register(next.own.owner)
    await database.query(`${end} where owner = '${former.own.owner}'`)
    next.own.acceptKey('other.example.com ffffffff')
    await next.tick()
    expect(await listOpenTroubles(database.db)).toHaveLength(1)
    // Within a few milliseconds it is not known what came first.
    await expect
      .poll(async () => {
        next.own.acceptKey('api.example.com ffffffff')
        await next.tick()
        return listOpenTroubles(database.db)
      })
      .toEqual([])
    // By the proof, and not by the silence of the former one.
    expect(await database.query(`select known_at > seen_at as proved from fillrate.troubles`)).toEqual([
      { proved: true },
    ])
  },
)

const WRITTEN = `insert into fillrate.changes (run_id, source, key, before, after)
                 select max(id), 'people', '1', '{}', '{}' from fillrate.runs`

/** A run as it ends, and whether it is a trouble that it failed. */
const RUNS: readonly (readonly [name: string, runs: readonly string[], isTrouble: boolean])[] = [
  ['of a schedule', [ended('schedule', 'failed')], true],
  ['of live sync', [ended('follow', 'failed')], true],
  ['that a user has started, and sees', [ended('manual', 'failed')], false],
  ['before a good one of a user', [ended('schedule', 'failed'), ended('manual', 'completed')], false],
  ['before a good one of live sync', [ended('schedule', 'failed'), ended('follow', 'completed')], false],
  [
    'before a good one of one source of two',
    [ended('schedule', 'failed', 'people,accounts'), ended('manual', 'completed')],
    true,
  ],
  [
    'before good ones of each source',
    [
      ended('schedule', 'failed', 'people,accounts'),
      ended('manual', 'completed'),
      ended('manual', 'completed', 'accounts'),
    ],
    false,
  ],
  ['before an interrupted one', [ended('schedule', 'failed'), ended('schedule', 'interrupted')], true],
  [
    'before a dry one',
    [ended('schedule', 'failed'), ended('manual', 'completed', 'people', '{"dry": true}')],
    true,
  ],
  [
    'before live sync, which has written nothing yet',
    [ended('follow', 'failed'), ended('follow', 'running')],
    true,
  ],
  [
    'before live sync, which has written',
    [ended('follow', 'failed'), ended('follow', 'running'), WRITTEN],
    false,
  ],
]

function ended(trigger: string, state: string, sources = 'people', options = '{}'): string {
  const follow = trigger === 'follow' ? '{"follow": true}' : options
  return `insert into fillrate.runs (failed_scope, trigger, sources, state, owner, lease_token, leased_until, finished_at, options)
          values ('${SCOPE}', '${trigger}', '{${sources}}', '${state}', 'x', gen_random_uuid(), now() + interval '1 hour',
                  ${state === 'running' ? 'null' : 'clock_timestamp()'}, '${follow}')`
}

test.each(RUNS)('a failed run %s', async (_, runs, isTrouble) => {
  for (const text of runs) await database.query(text)
  const watched = startProcess()
  await watched.tick()
  expect((await listOpenTroubles(database.db)).map(({ code }) => code)).toEqual(
    isTrouble ? ['run_failed'] : [],
  )
})

test('while Postgres is away a process says so once, and once when it is back, and all record one outage', async () => {
  const cable = await new Cable(database.url).plug()
  const opened = [0, 1].map(() => openDatabase({ url: cable.through(database.url), max: 2 }))
  onTestFinished(async () => {
    await Promise.all(opened.map((db) => db.destroy()))
    await cable.pull()
  })
  const processes = opened.map((db) => startProcess(db))
  await tickAll(processes)
  await cable.pull()
  for (let n = 0; n < 3; n++) await tickAll(processes)
  for (const watched of processes) {
    expect(watched.lines).toMatchObject([
      { level: 50, msg: expect.stringMatching(/^Postgres is away \(.+\)$/) },
    ])
    expect(watched.own.list()).toMatchObject([{ code: 'database_away' }])
  }
  await cable.plug()
  for (let n = 0; n < 2; n++) await tickAll(processes)
  for (const watched of processes) {
    expect(watched.said()).toEqual(['trouble_began database_away', 'trouble_ended database_away'])
    expect(watched.own.list()).toEqual([])
  }
  const recorded = await listRecentTroubles(database.db, 10)
  expect(recorded).toMatchObject([{ code: 'database_away', endedAt: expect.any(Date) }])
})

test.each([
  ['53300', 'Postgres has no free connection'],
  ['53400', 'Postgres refuses statements: they exceed a limit of its configuration'],
])(
  'statements that are refused with %s again and again are a trouble, recorded once, until they are not',
  async (sqlState, title) => {
    const role = `limited_${process.pid}_${sqlState}`
    const [{ name }] = (await database.query('select current_database() as name')) as [{ name: string }]
    await database.query(
      `create role ${role} login password 'a' connection limit ${sqlState === '53300' ? 1 : -1}`,
    )
    await database.query(`alter role ${role} in database ${name} set temp_file_limit = '1MB'`).catch(() => {})
    await database.query(`alter role ${role} in database ${name} set work_mem = '64kB'`)
    const watched = [startProcess(), startProcess()]
    const [{ own }] = watched as [Watched]
    const url = Object.assign(new URL(database.url), { username: role, password: 'a' }).href
    const limited = openDatabase({ url, max: 2, onServerError: (error) => own.noteServerError(error) })
    onTestFinished(async () => {
      await limited.destroy()
      await database.query(`drop owned by ${role}; drop role ${role}`)
    })
    const work = () =>
      sqlState === '53300'
        ? Promise.allSettled([1, 2].map(() => sql`select pg_sleep(0.1)`.execute(limited)))
        : sql`select n from generate_series(1, 300000) n order by -n offset 299999`
            .execute(limited)
            .catch(() => {})
    await expect
      .poll(async () => {
        await work()
        await tickAll(watched)
        return own.describeOutage()
      })
      .toBe(title)
    await tickAll(watched)
    expect(await listOpenTroubles(database.db)).toMatchObject([
      { code: 'database_away', details: { sqlstate: sqlState } },
    ])
    // What was refused is not tried any more.
    await expect
      .poll(async () => {
        await tickAll(watched)
        return own.describeOutage()
      })
      .toBe(null)
    await tickAll(watched)
    expect(watched[0]?.said()).toEqual(['trouble_began database_away', 'trouble_ended database_away'])
    expect(await listRecentTroubles(database.db, 10)).toMatchObject([
      { code: 'database_away', endedAt: expect.any(Date) },
    ])
  },
)

test('a database that takes no writes is away as well, and one without the schema is not watched', async () => {
  const watched = startProcess()
  const [{ name }] = (await database.query('select current_database() as name')) as [{ name: string }]
  await database.query(`alter database ${name} set default_transaction_read_only = on`)
  const db = openDatabase({ url: database.url })
  onTestFinished(() => db.destroy())
  const readOnly = startProcess(db)
  await readOnly.tick()
  await database.query(`alter database ${name} reset default_transaction_read_only`)
  expect(readOnly.lines).toMatchObject([{ msg: 'Postgres takes no writes: it is read-only' }])

  await database.query('alter table fillrate.troubles rename to away')
  await watched.tick()
  await database.query('alter table fillrate.away rename to troubles')
  expect(watched.lines).toEqual([])
})

test('a look that Postgres answers too late logs no end a second time', async () => {
  const { own, tick, said } = startProcess()
  own.raise('schema_outdated', '', {})
  await tick()
  const other = await database.pool.connect()
  try {
    await other.query('begin; select pg_advisory_xact_lock(4713117286)')
    own.clear('schema_outdated')
    await tick()
    expect(said()).toEqual([
      'trouble_began schema_outdated',
      'trouble_began database_away',
      'trouble_ended schema_outdated',
    ])
  } finally {
    await other.query('rollback')
    other.release()
  }
  await expect.poll(() => database.query('select from fillrate.troubles where ended_at is null')).toEqual([])
  await tick()
  expect(said().filter((line) => line === 'trouble_ended schema_outdated')).toHaveLength(1)
})

test('a trouble of its own that ends during a look is logged as over once', async () => {
  const { own, tick, said } = startProcess()
  own.raise('schema_outdated', '', {})
  await tick()
  const other = await database.pool.connect()
  await other.query('begin; lock table fillrate.troubles')
  const ticked = tick()
  await expect.poll(() => database.query('select from pg_locks where not granted')).toHaveLength(1)
  own.clear('schema_outdated')
  await other.query('commit')
  other.release()
  await ticked
  await tick()
  await tick()
  expect(await database.query('select from fillrate.troubles where ended_at is null')).toEqual([])
  expect(said().filter((line) => line === 'trouble_ended schema_outdated')).toHaveLength(1)
})
