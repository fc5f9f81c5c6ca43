import { randomUUID } from 'node:crypto'
import { request } from 'undici'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { DashboardToken } from '../../../src/config/environment.ts'
import { claimScheduledRun, insertRequest } from '../../../src/store/scheduled-runs.ts'
import { serveApp, startDaemon, type Stop } from '../../support/app-processes.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { createCommandLine } from '../../support/cli.ts'
import { DashboardClient } from '../../support/dashboard-client.ts'
import { useHarness } from '../../support/harness.ts'
import { runProgram } from '../../support/program.ts'

const ANNA: DashboardToken = { name: 'anna', role: 'operator', secret: 'a-token-that-is-hard-to-guess' }
const READER: DashboardToken = { name: 'grafana', role: 'reader', secret: 'another-one-that-only-reads' }

let at: string
let anna: DashboardClient
const working: Stop[] = []

const lastAudit = async (): Promise<object | undefined> =>
  (
    await harness.query(
      `select actor, origin, action, parameters, outcome, detail, run_id::int as run
         from fillrate.audit_events order by id desc limit 1`,
    )
  )[0]

/** Starts a process that executes runs, beside the one that shows the dashboard. @returns stops it */
async function startBeside(): Promise<Stop> {
  const processes = await harness.query(`select from fillrate.processes where role = 'start'`)
  const app = await harness.open({ environment: { webhookSecrets: [] } })
  const stop = startDaemon(app)
  working.push(stop)
  // The dashboard knows it by its report.
  await expect
    .poll(() => harness.query(`select from fillrate.processes where role = 'start'`))
    .not.toHaveLength(processes.length)
  return stop
}

const harness = useHarness({
  config: { ...withAccounts, budget: 500 },
  sandbox: { notFoundShare: 0, missingShare: 0 },
  prepare: ({ pool }) => createCrm(pool, 40, 5),
})
beforeAll(async () => {
  const app = await harness.open({ environment: { dashboardTokens: [ANNA, READER] } })
  const served = await serveApp(app)
  working.push(served.stop)
  ;({ at } = served)
  anna = new DashboardClient(at, ANNA)
})
afterAll(() => Promise.all(working.map((stop) => stop())))

const START = '/runs/start?source=contacts&budget=18'

test('without a daemon, a requested run says so, and waits', async () => {
  const form = await anna.get('/runs/new?source=contacts')
  expect(form.text).toContain('No daemon is running')
  expect(form.text).toMatch(/name="budget"\s+value="500"/)
  const preview = await anna.get(START)
  expect(preview.text).toContain('No daemon is running')
  expect(preview.text).toMatch(/<b class="figure">\s*18 lookups\s*<\/b>/)
  const fields = await anna.readForm(START)
  const { location } = await anna.post(START, fields)
  expect(location).toBe('/runs?requested=1')
  expect((await anna.get(location ?? '')).text).toContain('No daemon is running')
  // Sent twice: the same request.
  await anna.post(START, fields)
  expect(await harness.query('select from fillrate.scheduled_runs where request is not null')).toHaveLength(1)
  expect(harness.calls()).toBe(0)
  await harness.query('delete from fillrate.scheduled_runs')
})

test('a request that was stored before its process was killed is executed once, by one of two daemons', async () => {
  // The process that stored it died before any daemon saw it.
  const id = randomUUID()
  const work = { sources: ['contacts'], limit: 10, budget: 10, where: null } as const
  await insertRequest(harness.database.db, { id, work: { ...work, route: 'sync' }, by: 'anna' }, 0)
  // Another one took it, and was killed before its run began.
  const claim = await claimScheduledRun(harness.database.db, {
    schedules: [],
    requests: { sources: ['contacts', 'accounts'], service: 0 },
    owner: 'gone',
    token: randomUUID(),
    leaseMs: 600_000,
    takesOver: true,
  })
  expect(claim.claimed?.request?.id).toBe(id)
  const daemons = [await startBeside(), await startBeside()]
  await harness.query(
    `update fillrate.scheduled_runs set leased_until = now() - interval '1 s' where owner = 'gone'`,
  )
  await expect
    .poll(() =>
      harness.query(
        `select state, run_id::int from fillrate.scheduled_runs where schedule = 'request ' || $1`,
        [id],
      ),
    )
    .toEqual([{ state: 'done', run_id: 1 }])
  expect(await harness.query('select id::int, state, trigger from fillrate.runs')).toEqual([
    { id: 1, state: 'completed', trigger: 'manual' },
  ])
  // One waits for its last poll, so that no second run can still begin.
  await Promise.all(daemons.map((end) => end()))
  expect(await harness.query('select from fillrate.runs')).toHaveLength(1)
})

test('a run is started once from its preview, and its end is in the audit list', async () => {
  const end = await startBeside()
  const fields = await anna.readForm(START)
  const [first, second] = await Promise.all([anna.post(START, fields), anna.post(START, fields)])
  for (const { location } of [first, second]) expect(location).toBe('/runs?requested=1')
  const run = 2
  await expect
    .poll(async () => (await anna.get('/runs?requested=1')).text)
    .toContain(`<a href="/runs/${run}">${run}</a>`)
  await expect.poll(lastAudit).toMatchObject({
    actor: 'anna',
    origin: 'dashboard',
    action: 'run',
    parameters: { sources: ['contacts'], budget: 18 },
    outcome: 'done',
    run,
  })
  expect(await harness.query('select from fillrate.runs')).toHaveLength(2)
  const [{ options } = { options: {} }] = await harness.query<{ options: object }>(
    'select options from fillrate.runs where id = $1',
    [run],
  )
  expect(options).toMatchObject({ limit: null, budget: 18, route: 'auto' })
  await end()
})

test('what is wrong in the form is said beside the field, and nothing starts', async () => {
  const before = await harness.query('select from fillrate.runs')
  for (const [wrong, text] of [
    ['source=nope&budget=5', 'no source nope'],
    ['budget=5', 'Choose at least one source'],
    ['source=contacts&budget=lots', 'Expected a whole number of lookups'],
  ]) {
    for (const answer of [
      await anna.get(`/runs/start?${wrong}`),
      await anna.post(`/runs/start?${wrong}`, await anna.readForm('/sources/contacts/pause')),
    ]) {
      expect([wrong, answer.status]).toEqual([wrong, 422])
      expect(answer.text).toContain(text)
      expect(answer.text).toContain('class="fault"')
    }
  }
  expect(await harness.query('select from fillrate.runs')).toHaveLength(before.length)
})

test('how a run is undone is said where it wrote something, and nowhere else', async () => {
  const [empty] = await harness.query<{ id: number }>(
    `insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until, finished_at, options)
     select trigger, sources, state, owner, gen_random_uuid(), leased_until, finished_at, options
       from fillrate.runs where id = 1 returning id`,
  )
  expect((await anna.get('/runs/1')).text).toContain('fillrate undo 1')
  const { text } = await anna.get(`/runs/${empty?.id}`)
  expect(text).not.toContain('fillrate undo')
  await harness.query(`delete from fillrate.runs where id = ${empty?.id}`)
})

test('failed rows are retried by reason', async () => {
  await harness.query(`update fillrate.rows set state = 'failed', failure = 'failed', reason = 'it broke', lookup_id = null, settled_at = now(), due_at = null
                where source = 'contacts' and key in ('11', '12')`)
  await harness.query(`update crm.contacts set phone = null where id in (11, 12)`)
  const path = `/retry?${new URLSearchParams({ source: 'contacts', state: 'failed', reason: 'it broke' })}`
  expect((await anna.get(path)).text).toContain('Queue 2 rows')
  expect(await anna.confirm(path)).toBe('/runs/new?retried=1&source=contacts')
  expect(await lastAudit()).toMatchObject({ action: 'retry', outcome: 'done', detail: '2 rows queued' })
  expect(
    await harness.query(`select from fillrate.rows where key in ('11', '12') and due_at <= now()`),
  ).toHaveLength(2)
})

test('a pause has a reason; a resume ends it', async () => {
  await anna.confirm('/sources/contacts/pause', { reason: 'import of the fair' })
  expect(
    await harness.query(
      `select paused_by, pause_reason as reason from fillrate.source_state where paused_at is not null`,
    ),
  ).toEqual([{ paused_by: 'anna', reason: 'import of the fair' }])
  expect((await anna.get('/')).text).toContain('import of the fair')
  expect(await lastAudit()).toMatchObject({
    action: 'pause',
    parameters: { sources: ['contacts'], reason: 'import of the fair' },
  })
  expect((await anna.get(START)).text).toContain('the run skips contacts')
  expect(await anna.confirm('/sources/contacts/resume')).toBe('/sources/contacts')
  expect(await harness.query('select from fillrate.source_state where paused_at is not null')).toEqual([])
})

test('a run is cancelled, and an ended one is not', async () => {
  const [row] = await harness.query<{ id: number }>(
    `insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
     values ('manual', '{contacts}', 'running', 'a process', $1, now() + interval '1 hour') returning id::int`,
    [randomUUID()],
  )
  expect(await anna.confirm(`/runs/${row?.id}/cancel`)).toBe(`/runs/${row?.id}`)
  expect(await harness.query('select cancelled_by from fillrate.runs where id = $1', [row?.id])).toEqual([
    { cancelled_by: 'anna' },
  ])
  expect(await lastAudit()).toMatchObject({ action: 'cancel', run: row?.id, outcome: 'done' })
  expect((await anna.get('/runs/1/cancel')).text).toContain('has ended')
  const fields = await anna.readForm('/sources/contacts/pause')
  expect((await anna.post('/runs/1/cancel', fields)).status).toBe(409)
  expect(await lastAudit()).toMatchObject({ action: 'cancel', run: 1, outcome: 'failed' })
  await harness.query(`delete from fillrate.runs where id = $1`, [row?.id])
})

test('changes from the command line are in the same list, without the data that they erase', async () => {
  const cli = await createCommandLine(harness.database.url, harness.sandbox, withAccounts)
  const before = await harness.query<{ id: number }>('select max(id)::int as id from fillrate.audit_events')
  try {
    const command = async (...words: string[]): Promise<number | null> =>
      (await runProgram({ cwd: cli.folder, env: cli.environment }, ...words)).code
    expect(await command('run', 'accounts', '--limit', '2', '--budget', '5', '--json')).toBe(0)
    const [run] = await harness.query<{ id: number }>('select max(id)::int as id from fillrate.runs')
    const undo = ['undo', String(run?.id), '--json', '--yes']
    for (const words of [
      ['retry', '--state', 'undone', '--json'],
      ['pause', 'accounts', '--because', 'audit', '--json'],
      ['resume', 'accounts', '--json'],
      ['cancel', '1', '--json'],
      ['cancel', '--job', 'no-such-job', '--json'],
      ['remap', 'accounts', '--json'],
      ['forget', '--email', 'person1@example.com', '--json', '--yes'],
      // Previews change nothing, so they are not in the list.
      [...undo, '--dry-run'],
      ['retry', '--dry-run', '--json'],
      ['forget', '--email', 'person2@example.com', '--dry-run', '--json'],
    ])
      await command(...words)
    expect(await command(...undo)).toBe(0)
    const added = await harness.query<{
      action: string
      actor: string
      origin: string
      outcome: string
      run: number
    }>(
      `select action, actor, origin, outcome, run_id::int as run, parameters
         from fillrate.audit_events where id > $1 order by id`,
      [before[0]?.id],
    )
    expect(added.map(({ action, outcome }) => [action, outcome])).toEqual([
      ['run', 'done'],
      ['retry', 'done'],
      ['pause', 'done'],
      ['resume', 'done'],
      ['cancel', 'failed'],
      ['job cancel', 'failed'],
      ['remap', 'done'],
      ['forget', 'done'],
      ['undo', 'done'],
    ])
    expect(added[0]?.run).toBe(run?.id)
    expect(new Set(added.map(({ origin }) => origin))).toEqual(new Set(['command line']))
    expect(added.every(({ actor }) => /^\S+@\S+$|^a user of /.test(actor))).toBe(true)
    expect(JSON.stringify(added)).not.toContain('person1@')
  } finally {
    await cli.remove()
  }
})

const ACTIONS = [
  '/runs/start?source=contacts',
  '/runs/1/cancel',
  '/retry',
  '/sources/contacts/pause',
  '/services/any/try',
]

test('a reader sees no button, and can do nothing', async () => {
  const reader = new DashboardClient(at, READER)
  const shown: string[] = []
  for (const path of ['/', '/sources/contacts', '/runs/1', '/rows']) {
    const [seen, acting] = [await reader.get(path), await anna.get(path)]
    expect(seen.status).toBe(200)
    const links = (text: string): string[] =>
      [
        ...text.matchAll(/href="(\/(?:runs\/(?:new|\d+\/cancel)|retry|services\/|sources\/[^/"]+\/)[^"]*)"/g),
      ].map(([, url]) => url ?? '')
    expect(links(seen.text)).toEqual([])
    shown.push(...links(acting.text))
  }
  expect(shown).toEqual(expect.arrayContaining(['/runs/new', '/sources/contacts/pause']))
  const before = await harness.query('select from fillrate.audit_events')
  for (const path of [...ACTIONS, '/runs/new', '/sources/contacts/resume']) {
    expect([path, (await reader.get(path)).status]).toEqual([path, 403])
    // The form of a run is sent to its preview.
    const target = path === '/runs/new' ? '/runs/start' : path
    expect([path, (await reader.post(target, {})).status]).toEqual([path, 403])
  }
  for (const path of ['/runs/1/cancel', '/sources/contacts/pause']) {
    const headers = { authorization: `Bearer ${READER.secret}` }
    const { statusCode, body } = await request(at + path, { method: 'POST', headers })
    await body.dump()
    expect(statusCode).toBe(403)
  }
  expect(await harness.query('select from fillrate.audit_events')).toHaveLength(before.length)
})

test('nothing that another site sends does anything; a program needs no page', async () => {
  const before = await harness.query('select from fillrate.audit_events')
  const fields = await anna.readForm('/sources/contacts/pause')
  const { host } = new URL(at)
  for (const path of ACTIONS)
    for (const headers of [
      {},
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'cross-site', origin: at },
      { origin: 'https://evil.example', 'x-forwarded-host': 'evil.example', referer: at },
    ])
      expect(await anna.post(path, fields, headers as Record<string, string>)).toMatchObject({
        status: 403,
        text: expect.stringContaining('did not come from a page of this server') as string,
      })
  expect(await harness.query('select from fillrate.audit_events')).toHaveLength(before.length)
  expect(await harness.query('select from fillrate.source_state where paused_at is not null')).toEqual([])
  for (const headers of [{ origin: `https://${host}` }, { 'sec-fetch-site': 'same-origin' }])
    expect(await anna.post('/sources/contacts/resume', {}, headers as Record<string, string>)).toMatchObject({
      status: 303,
    })
  const headers = { authorization: `Bearer ${ANNA.secret}` }
  const { statusCode, body } = await request(`${at}/sources/contacts/resume`, { method: 'POST', headers })
  await body.dump()
  expect(statusCode).toBe(303)
  expect(await lastAudit()).toMatchObject({ actor: 'anna', action: 'resume' })
})

test('the audit list is shown on System, newest first', async () => {
  const { text } = await new DashboardClient(at, READER).get('/system')
  expect(text).toContain('import of the fair')
  expect(text.indexOf('import of the fair')).toBeGreaterThan(text.lastIndexOf('resume'))
})

test('a request that no process executes in time is dropped, one of removed sources too', async () => {
  for (const source of ['accounts', 'contacts']) await anna.confirm(`/runs/start?source=${source}&budget=5`)
  await harness.query(
    `update fillrate.scheduled_runs
        set at = at - interval '61 minutes', sources = case when 'contacts' = any(sources) then '{removed}' else sources end
      where request is not null and state = 'waiting'`,
  )
  const before = await harness.query('select from fillrate.runs')
  const end = await startBeside()
  const said = 'no process with its sources executed it in time'
  await expect.poll(async () => (await anna.get('/system')).text.split(said)).toHaveLength(3)
  expect(await lastAudit()).toMatchObject({ action: 'run', outcome: 'failed', run: null })
  await end()
  expect(await harness.query('select from fillrate.runs')).toHaveLength(before.length)
})
