import pino from 'pino'
import { sql } from 'kysely'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import type { NotifyTarget } from '../../../src/config/config.ts'
import { ConditionTicker, startConditionWatch, ProcessState } from '../../../src/daemon/condition-watch.ts'
import { Notifier } from '../../../src/daemon/notifier.ts'
import { toOutageCondition } from '../../../src/domain/condition.ts'
import { listOpenConditions, listRecentConditions, readConditions } from '../../../src/store/conditions.ts'
import { openDatabase, type Database } from '../../../src/store/open.ts'
import {
  acquireLease,
  deleteReplacedCircuits,
  findCircuit,
  saveCircuit,
} from '../../../src/store/rate-limits.ts'
import { readTry } from '../../../src/store/services.ts'
import { Cable } from '../../support/cable.ts'
import { startLoopback } from '../../support/loopback.ts'
import { useTestDatabase } from '../../support/database.ts'

// What processes record and log of conditions, and what each knows alone. Which hold, test/integration/store/conditions.test.ts says.

const SCOPE = 'api.example.com 62af8704'
const database = useTestDatabase()
beforeEach(() =>
  database.query(`truncate fillrate.conditions, fillrate.circuit_breakers, fillrate.leases, fillrate.processes, fillrate.services,
      fillrate.runs, fillrate.spend cascade;
    insert into fillrate.services (id, host, name) values (0, 'api.example.com', 'acme'), (1, 'other.example.com', 'pdl')`),
)

/** A process that watches, with the lines that it logs. */
function startProcess(db: Database = database.db, notifyOfOutage: Notifier['notifyOfOutage'] | null = null) {
  const lines: Record<string, unknown>[] = []
  const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>) })
  const own = new ProcessState()
  const notifier = notifyOfOutage && { notifyOfOutage, send: async () => 0, release: async () => {} }
  const ticker = new ConditionTicker({ db, log, state: own, schedules: () => null, notifier: () => notifier })
  return {
    own,
    lines,
    tick: () => ticker.tick(),
    said: () => lines.map(({ event, kind }) => `${String(event)} ${String(kind)}`),
  }
}
type Watched = ReturnType<typeof startProcess>
const tickAll = (processes: readonly Watched[]) => Promise.all(processes.map(({ tick }) => tick()))
const allLines = (processes: readonly Watched[]) => processes.flatMap(({ said }) => said()).toSorted()
const listKinds = async () =>
  (await listOpenConditions(database.db)).map(({ kind, service }) => `${kind} ${service}`)
const pass = (interval: string) =>
  database.query(
    `update fillrate.conditions set seen_at = seen_at - interval '${interval}', began_at = began_at - interval '${interval}'`,
  )

const DOWN = `insert into fillrate.circuit_breakers (scope, probe_at, backoff_ms, reason, cause)
  values ('${SCOPE}', now() + interval '20 seconds', 5000, 'connection refused', 'unreachable')`

test('the log says once what it means, what to do, and in the end how long it lasted', async () => {
  const processes = [startProcess(), startProcess()]
  await tickAll(processes)
  await database.query(DOWN)
  for (let n = 0; n < 2; n++) await tickAll(processes)
  await database.query(`delete from fillrate.circuit_breakers`)
  await pass('49 s')
  for (let n = 0; n < 2; n++) await tickAll(processes)
  // Whichever process sees it first logs it.
  const lines = processes
    .flatMap((one) => one.lines)
    .toSorted((a, b) => Number(a['time']) - Number(b['time']))
  expect(lines).toMatchObject([
    {
      level: 50,
      msg: 'Cannot reach acme (connection refused)',
      event: 'condition_began',
      kind: 'service_failing',
      service: 'acme',
      source: null,
      meaning: expect.stringContaining('0 rows wait'),
      mend: expect.stringContaining('Look at the status page'),
    },
    {
      level: 30,
      event: 'condition_ended',
      ms: expect.any(Number),
      msg: expect.stringMatching(/^Over after (49|50) s: Cannot reach acme/),
    },
  ])
})

test('a refused key of one service is not over with an answer of the other, and ends for all processes with its own', async () => {
  const processes = [startProcess(), startProcess()]
  const [one, other] = processes as [Watched, Watched]
  for (const { own } of processes) own.refuseKey(SCOPE, 0, 'HTTP 401')
  await tickAll(processes)
  expect(await listOpenConditions(database.db)).toMatchObject([
    { kind: 'key_refused', service: 'acme', details: { reason: 'HTTP 401' } },
  ])
  const third = startProcess()
  await third.tick()
  third.own.acceptKey('other.example.com ffffffff')
  third.own.acceptKey('api.example.com ffffffff')
  await third.tick()
  expect(await listKinds()).toEqual(['key_refused acme'])
  // Any process that is answered with it ends it, and what waits to try the key again goes on at once.
  const tried = await readTry(database.db, 0)
  third.own.acceptKey(SCOPE)
  await third.tick()
  await tickAll(processes)
  expect(await readTry(database.db, 0)).not.toBe(tried)
  await pass('7 s')
  await one.tick()
  expect(await listKinds()).toEqual([])
  expect(allLines([...processes, third])).toEqual([
    'condition_began key_refused',
    'condition_ended key_refused',
  ])
  // A call that was accepted before the key was refused again proves nothing.
  other.own.refuseKey(SCOPE, 0, null)
  await tickAll(processes)
  expect(await listKinds()).toEqual(['key_refused acme'])
})

test('a key that was replaced is over when the next one leads, and a circuit of the leader neither hides nor ends it', async () => {
  const watched = startProcess()
  watched.own.refuseKey(SCOPE, 0, 'HTTP 401')
  await watched.tick()
  const lease = { scope: SCOPE, service: 0, token: crypto.randomUUID() }
  await acquireLease(database.db, SCOPE, lease.token, 'x', 60_000)
  expect(await findCircuit(database.db, SCOPE)).toBe(null)
  await saveCircuit(database.db, lease, null)
  await deleteReplacedCircuits(database.db, { scope: 'api.example.com ffffffff', service: 0 })
  await watched.tick()
  expect(await listKinds()).toEqual(['key_refused acme'])
  await database.query('delete from fillrate.leases')
  // Of another service it says nothing.
  await deleteReplacedCircuits(database.db, { scope: 'other.example.com ffffffff', service: 1 })
  await watched.tick()
  expect(await listKinds()).toEqual(['key_refused acme'])
  await deleteReplacedCircuits(database.db, { scope: 'api.example.com ffffffff', service: 0 })
  await pass('7 s')
  await watched.tick()
  expect(await listKinds()).toEqual([])
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
  // What is learnt meanwhile is stored afterwards.
  processes[0]?.own.refuseKey(SCOPE, 0, 'HTTP 401')
  await cable.pull()
  for (let n = 0; n < 3; n++) await tickAll(processes)
  for (const watched of processes) {
    expect(watched.lines).toMatchObject([
      { level: 50, msg: expect.stringMatching(/^Postgres is away \(.+\)$/) },
    ])
    expect(watched.own.findOutage()).not.toBe(null)
  }
  await cable.plug()
  for (let n = 0; n < 2; n++) await tickAll(processes)
  for (const watched of processes) {
    expect(watched.said()).toEqual(
      expect.arrayContaining(['condition_began database_away', 'condition_ended database_away']),
    )
    expect(watched.own.findOutage()).toBe(null)
  }
  const recorded = await listRecentConditions(database.db, 10)
  expect(recorded.filter(({ kind }) => kind === 'database_away')).toMatchObject([
    { endedAt: expect.any(Date) },
  ])
  expect(await listKinds()).toEqual(['key_refused acme'])
})

test('an outage is recorded before what it explains, which is then no condition', async () => {
  const cable = await new Cable(database.url).plug()
  const db = openDatabase({ url: cable.through(database.url), max: 2 })
  onTestFinished(() => db.destroy())
  const watched = startProcess(db)
  await cable.pull()
  await watched.tick()
  await database.query(`insert into fillrate.runs (trigger, sources, state, failed_for, owner, lease_token, leased_until, finished_at)
    values ('schedule', '{people}', 'failed', 'database_away', 'x', gen_random_uuid(), now(), now() - interval '20 seconds')`)
  await cable.plug()
  const read = async () => (await readConditions(database.db, { schedules: null })).map(({ kind }) => kind)
  expect(await read()).toEqual(['run_failed'])
  // That of this process lasted for as long.
  watched.own.clearAway()
  watched.own.setAway({ reason: 'gone' }, performance.now() - 30_000)
  await watched.tick()
  expect(await read()).toEqual([])
  expect(watched.said()).not.toContain('condition_began run_failed')
})

test.each([
  ['53300', 'Postgres has no free connection'],
  ['53400', 'Postgres refuses statements: they exceed a limit of its configuration'],
])(
  'statements that are refused with %s again and again are a condition, recorded once, until they are not',
  async (sqlState, title) => {
    const role = `limited_${process.pid}_${sqlState}`
    const [{ name }] = (await database.query('select current_database() as name')) as [{ name: string }]
    await database.query(
      `create role ${role} login password 'a' connection limit ${sqlState === '53300' ? 1 : -1}`,
    )
    await database.query(`alter role ${role} in database ${name} set temp_file_limit = '1MB'`).catch(() => {})
    await database.query(`alter role ${role} in database ${name} set work_mem = '64kB'`)
    const watched = [startProcess(), startProcess()]
    await database.query(`insert into fillrate.processes (owner, role, host, pid, version, node_version, config, started_at)
      values ('${watched[0]?.own.owner}', 'start', 'a', 1, '', '', '{}', now())`)
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
    expect(await listOpenConditions(database.db)).toMatchObject([
      { kind: 'database_away', details: { sqlstate: sqlState } },
    ])
    // What was refused is not tried any more.
    await expect
      .poll(async () => {
        await tickAll(watched)
        return own.describeOutage()
      })
      .toBe(null)
    await tickAll(watched)
    expect(watched[0]?.said()).toEqual(['condition_began database_away', 'condition_ended database_away'])
    expect(await listRecentConditions(database.db, 10)).toMatchObject([
      { kind: 'database_away', endedAt: expect.any(Date) },
    ])
  },
)

test('a refusal that two processes see is recorded once, and is over when neither sees it', async () => {
  const isFull = [true, true]
  let canStore = false
  let sent = 0
  const processes = isFull.map((_, index) => {
    // Nothing can be stored at first: one of them notifies from its memory.
    const db = new Proxy(database.db, {
      get: (target, name) => {
        if (!canStore) throw Object.assign(new Error('could not extend file'), { code: '53100' })
        const member: unknown = Reflect.get(target, name)
        return typeof member === 'function' ? (member.bind(target) as unknown) : member
      },
    })
    const notifyOfOutage = async (_: unknown, acceptedBy: readonly string[]) => {
      if (index === 1 || acceptedBy.length > 0) return []
      sent++
      return ['began target']
    }
    const watched = startProcess(db, notifyOfOutage)
    const refusal = { sqlState: '53100', firstAt: performance.now() - 60_000, lastAt: performance.now() }
    watched.own.findRefusal = () => (isFull[index] === true ? refusal : null)
    return watched
  })
  for (const { own } of processes)
    await database.query(`insert into fillrate.processes (owner, role, host, pid, version, node_version, config, started_at)
      values ('${own.owner}', 'start', 'a', 1, '', '', '{}', now())`)
  const recorded = () =>
    database.query(`select ended_at is not null as "isOver", accepted_by from fillrate.conditions`)
  const look = async (): Promise<unknown> => {
    for (let n = 0; n < 2; n++) await tickAll(processes)
    return recorded()
  }
  expect(await look()).toEqual([])
  canStore = true
  expect(await look()).toEqual([{ isOver: false, accepted_by: ['began target'] }])
  isFull[0] = false
  expect(await look()).toEqual([{ isOver: false, accepted_by: ['began target'] }])
  isFull[1] = false
  expect(await look()).toEqual([{ isOver: true, accepted_by: ['began target'] }])
  expect(sent).toBe(1)
  expect(allLines(processes)).toEqual([
    'condition_began database_away',
    'condition_began database_away',
    'condition_ended database_away',
    'condition_ended database_away',
  ])
})

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

  await database.query('alter table fillrate.conditions rename to away')
  await watched.tick()
  await database.query('alter table fillrate.away rename to conditions')
  expect(watched.lines).toEqual([])
})

test('a look that Postgres answers too late is an outage, and logs each condition once', async () => {
  const { own, tick, said } = startProcess()
  await database.query(DOWN)
  const other = await database.pool.connect()
  try {
    await other.query('begin; lock table fillrate.conditions')
    await tick()
    expect(said()).toEqual(['condition_began database_away'])
  } finally {
    await other.query('rollback')
    other.release()
  }
  await expect
    .poll(() => database.query('select from fillrate.conditions where ended_at is null'))
    .toHaveLength(1)
  await tick()
  expect(own.findOutage()).toBe(null)
  expect(said().toSorted()).toEqual([
    'condition_began database_away',
    'condition_began service_failing',
    'condition_ended database_away',
  ])
})

test('a run beside a daemon leaves notifications to it, also of an outage, and without one it sends them', async () => {
  const received: string[] = []
  const target = await startLoopback(({ body }, response) => {
    received.push((JSON.parse(body) as { event: string }).event)
    response.end()
  })
  onTestFinished(() => target.close())
  const log = pino({ level: 'silent' })
  const start = (delayMs?: number) => {
    const own = new ProcessState()
    const targets: NotifyTarget[] = [{ url: target.url, form: 'json', on: ['error'] }]
    const origin = { dashboardUrl: null, owner: own.owner }
    const notifier = new Notifier({ ...origin, targets, url: null, log })
    const sent = vi.spyOn(notifier, 'send')
    const options = { db: database.db, log, state: own, schedules: () => null, notifier: () => notifier }
    const watch = startConditionWatch({ ...options, ...(delayMs !== undefined && { delayMs }) })
    return { own, notifier, sent, watch }
  }
  const daemon = start()
  const listNotifying = () =>
    database.query(`select owner from fillrate.leases where scope = 'notify' and leased_until > now()`)
  await expect.poll(listNotifying).toEqual([{ owner: daemon.own.owner }])
  const run = start(60_000)
  await expect.poll(() => run.sent.mock.settledResults.at(0)?.type).toBe('fulfilled')
  const away = toOutageCondition({ details: {}, forMs: 31_000 }, Date.now())
  expect(await run.notifier.notifyOfOutage(away, [])).toEqual([])
  expect(await daemon.notifier.notifyOfOutage(away, [])).toHaveLength(1)
  for (const { watch } of [run, daemon]) await watch.stop()
  expect(await listNotifying()).toEqual([])
  const alone = start(60_000)
  await database.query(
    `insert into fillrate.conditions (kind, service, details, began_at, seen_at, is_reported) values ('key_refused', 'acme', '{}', now(), now(), true)`,
  )
  await alone.watch.stop()
  expect(received).toEqual(['condition_began', 'condition_began'])
})
