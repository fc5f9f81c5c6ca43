import pino from 'pino'
import * as runs from '../../../src/store/runs.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { LeaderElector } from '../../../src/runs/leadership.ts'
import type { CallDeps } from '../../../src/pipeline/deps.ts'
import { lookUpBatch } from '../../../src/pipeline/look-up/look-up.ts'
import { createSlots } from '../../../src/pipeline/look-up/slots.ts'
import { runCallLoop } from '../../../src/runs/call-loop.ts'
import { WakeSignal } from '../../../src/util/wake-signal.ts'
import { startSandbox, type Sandbox } from '../../../src/sandbox/server.ts'
import type { SandboxOptions } from '../../../src/sandbox/options.ts'
import { Breaker } from '../../../src/service/breaker.ts'
import { EnrichmentClient } from '../../../src/service/client.ts'
import { Limiter } from '../../../src/service/rate-limit/limiter.ts'
import { requestTry } from '../../../src/store/services.ts'
import { POLICY } from '../../support/answered-people.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { loseCommits } from '../../support/lost-commits.ts'
import { beginRun } from '../../support/test-run.ts'

const SCOPE = 'the key'
interface CallFixture {
  readonly database: TestDatabase
  readonly sandbox: Sandbox
  readonly deps: Omit<CallDeps, 'limiter'>
  readonly logged: { readonly level: number; readonly msg: string }[]
}

/** A running run with waiting lookups, a service, and the dependencies to call it. */
async function createFixture(
  emails: readonly string[],
  options: Partial<SandboxOptions> = {},
): Promise<CallFixture> {
  const database = await createTestDatabase()
  const sandbox = await startSandbox(options)
  const logged: CallFixture['logged'] = []
  const log = pino(
    { level: 'info' },
    { write: (line: string) => void logged.push(JSON.parse(line) as CallFixture['logged'][number]) },
  )
  const client = new EnrichmentClient({
    baseUrl: sandbox.url,
    apiKey: sandbox.keys[0] ?? '',
  })
  onTestFinished(async () => {
    await client.close()
    await sandbox.close()
    await database.drop()
  })
  const run = await beginRun(database.db, { route: 'sync', scopes: { 0: SCOPE } })
  await database.query(
    `insert into fillrate.lookups (kind, key, input, state, run_id)
     select 'email', email, jsonb_build_object('email', email), 'pending', $2 from unnest($1::text[]) email`,
    [emails, run],
  )
  const deps = {
    db: database.db,
    sources: new Map(),
    log,
    now: Date.now,
    random: Math.random,
    policy: POLICY,
    service: 0,
    adapter: BUILT_IN_SERVICE,
    client,
    breaker: new Breaker(),
    slots: createSlots(POLICY.concurrency, []),
    webhookUrl: null,
  }
  return { database, sandbox, deps, logged }
}

const states = async ({ database }: CallFixture): Promise<Record<string, number>> => {
  const rows = await database.query<{ state: string; count: number }>(
    'select state, count(*)::int from fillrate.lookups group by state',
  )
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
}

const people = (count: number): string[] => Array.from({ length: count }, (_, n) => `p${n}@example.com`)

const startCallLoop = (
  deps: CallFixture['deps'],
  { scope, ...options }: { scope: string; signal: AbortSignal; pauseMs: () => number },
) =>
  runCallLoop({
    deps,
    elector: new LeaderElector({ ...deps, scope, owner: 'test', reserve: 0.1 }),
    isCurrent: () => true,
    onLeaderStatus: () => {},
    countFor: () => {},
    lookUpSignal: new WakeSignal(),
    syncSignal: new WakeSignal(),
    submitSignal: new WakeSignal(),
    onAnswers: () => {},
    onLeadership: () => {},
    onStop: () => {},
    ...options,
  })

test('a rejected key is retried with one call each time, and calls continue when it is accepted', async () => {
  const fixture = await createFixture(people(40))
  const { deps, sandbox } = fixture
  const keys = [...sandbox.keys]
  sandbox.configure({ keys: ['another key'] })
  const stopping = new AbortController()
  const rejectedCalls = (): number => sandbox.stats().requests['POST /v1/person/enrich']?.['401'] ?? 0
  const callsBefore: number[] = []
  const callLoop = startCallLoop(deps, {
    scope: SCOPE,
    signal: stopping.signal,
    pauseMs: () => {
      if (callsBefore.push(rejectedCalls()) === 4) sandbox.configure({ keys })
      return 1
    },
  })
  const open = async (): Promise<number> => {
    const { pending = 0, leased = 0 } = await states(fixture)
    return pending + leased
  }
  await expect.poll(open).toBe(0)
  stopping.abort()
  await callLoop
  const [first = 0] = callsBefore
  expect(callsBefore).toEqual([first, first + 1, first + 2, first + 3])
})

test('a process that waits with a refused key tries it at once if somebody wants to', async () => {
  const fixture = await createFixture(people(5))
  const { deps, sandbox, database } = fixture
  const keys = [...sandbox.keys]
  sandbox.configure({ keys: ['another key'] })
  await database.query(`insert into fillrate.services (id, host) values (0, 'api.example')`)
  const scope = 'api.example 62af8704'
  await database.query('update fillrate.runs set scopes = $1', [JSON.stringify({ 0: scope })])
  const stopping = new AbortController()
  const refused = new WakeSignal()
  const isRefused = refused.listen()
  const callLoop = startCallLoop(deps, {
    scope,
    signal: stopping.signal,
    pauseMs: () => {
      refused.notify()
      return 15 * 60_000
    },
  })
  await isRefused.wait(20_000, stopping.signal)
  sandbox.configure({ keys })
  await requestTry(database.db, 1)
  await sleep(3_000)
  expect(await states(fixture)).toEqual({ pending: 5 })
  await requestTry(database.db, 0)
  await expect.poll(() => states(fixture), { timeout: 10_000 }).not.toHaveProperty('pending')
  stopping.abort()
  await callLoop
})

test('an error within a tick ends it, is thrown and logged, and loses no other response', async () => {
  const fixture = await createFixture([...people(6), 'poison@example.com', ...people(30).slice(6)])
  const { deps, database, logged } = fixture
  // A response that the database rejects.
  await database.query(
    `alter table fillrate.lookups add constraint poison check (key <> 'poison@example.com' or state not in ('found', 'not_found'))`,
  )
  const limiter = new Limiter({})
  onTestFinished(() => limiter.stop())
  const [run] = await runs.listRunning(database.db)
  if (run === undefined) throw new Error('the run should be live')
  const options = { limit: () => 1_000, signal: new AbortController().signal }
  await expect(lookUpBatch({ ...deps, limiter }, run, options)).rejects.toThrow(/poison/)
  expect(logged.filter(({ level }) => level === 50)).toHaveLength(1)
  const rows = await database.query(
    `select state, attempts, unconfirmed_calls, not_before is not null as later from fillrate.lookups where key = 'poison@example.com'`,
  )
  expect(rows).toEqual([{ state: 'pending', attempts: 1, unconfirmed_calls: 1, later: true }])

  // Other requests are answered, and the next tick continues without it.
  const answered = fixture.sandbox.stats().calls.accepted - 1
  const after = await states(fixture)
  expect((after['found'] ?? 0) + (after['not_found'] ?? 0)).toBe(answered)
  await database.query(
    `update fillrate.lookups set not_before = now() + interval '1 day' where not_before is not null`,
  )
  // One tick: it does not end while lookups that it prepared are being marked.
  await lookUpBatch({ ...deps, limiter }, run, options)
  expect(await states(fixture)).not.toHaveProperty('leased')
  expect(await states(fixture)).toMatchObject({ pending: 1 })
})

test('a lease whose response was lost is resumed by the next attempt, and nothing is left to release', async () => {
  const { deps, database } = await createFixture([])
  const isRelease = (text: string): boolean => text.includes('delete from fillrate.leases')
  const elector = new LeaderElector({
    ...deps,
    scope: SCOPE,
    owner: 'test',
    reserve: 0.1,
  })
  database.statements()
  const lost = loseCommits(/insert into fillrate\.leases/, 20)
  onTestFinished(() => lost.end())
  for (let tries = 0; tries < 20; tries++) await expect(elector.acquire()).rejects.toThrow(/terminated/)
  // It holds the lease already: no other process may take it, and it need not expire first.
  const leadership = await elector.acquire()
  expect(leadership).not.toBe(null)
  expect(database.statements().filter(isRelease)).toEqual([])
  await leadership?.end()
  expect(database.statements().filter(isRelease)).toHaveLength(1)
})
