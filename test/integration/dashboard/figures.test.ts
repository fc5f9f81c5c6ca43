import pino from 'pino'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type { StatusReport } from '../../../src/domain/report/status.ts'
import { setTriggers } from '../../../src/actions/triggers.ts'
import { openApp } from '../../../src/app.ts'
import { renderStatus } from '../../../src/cli/views/status.ts'
import { Output } from '../../../src/cli/terminal.ts'
import { createStatusReport } from '../../../src/actions/status.ts'
import { parseConfig } from '../../../src/config/load.ts'
import { FAILURE_STATES } from '../../../src/domain/row.ts'
import { openSource } from '../../../src/sources/source.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { countAnswered, DayOnCall, insertContacts } from '../../support/day.ts'
import { runRequest } from '../../support/environment.ts'

// The figures of the dashboard, of `status`, of `GET /api/status` and of the metrics, held against SQL and against what the
// service has counted: after a run that stops at its budget, after its undo, and after live sync.

let day: DayOnCall
/** Lookups a day for live sync. */
const LIVE_BUDGET = 1_300
const LIVE_SPENT = `
  select sum(credits) as n from fillrate.spend where run_id in (select id from fillrate.runs where budget_name like 'follow %')`
const config = {
  ...withAccounts,
  sources: { ...withAccounts.sources, contacts: { ...withAccounts.sources.contacts, follow: true } },
  budget: 200,
  liveSync: { budget: LIVE_BUDGET },
  price: { currency: 'EUR', lookup: { person: 0.1, company: 0.02 } },
}
const parsed = parseConfig(config, null)
const SOURCES = Object.keys(config.sources)
const WAIT = { timeout: 120_000, interval: 500 }
const signal = new AbortController().signal

beforeAll(async () => {
  day = await DayOnCall.open({ notFoundShare: 0 })
  await createCrm(day.database.pool, 60, 12)
  const { contacts } = parsed.sources
  if (contacts === undefined) throw new Error('there is no such source')
  await setTriggers(day.database.db, await openSource(day.database.db, contacts), 'install')
  await day.start({ ...config, notify: [{ url: day.notifyUrl, on: ['error', 'warning'] }] })
})
afterAll(() => day.close())

async function withApp<Result>(
  act: (app: Awaited<ReturnType<typeof openApp>>) => Promise<Result>,
  apiKey: string = day.sandbox.keys[0] ?? '',
): Promise<Result> {
  const environment = { ...day.environment(day.database.url), apiKey }
  const app = await openApp({
    config: parseConfig(config, null),
    environment,
    log: pino({ level: 'silent' }),
  })
  try {
    return await act(app)
  } finally {
    await app.close()
  }
}

async function number(query: string, values: unknown[] = []): Promise<number> {
  const [row] = await day.query<{ n: number | string | null }>(query, values)
  return Number(row?.n ?? 0)
}

async function readWords(path: string): Promise<string> {
  const page = await day.read(path)
  return page
    .slice(page.indexOf('<main'))
    .replaceAll(/<(script|style|svg).*?<\/\1>/gs, '')
    .replaceAll(/<[^>]+>/g, ' ')
    .replaceAll(/\s+/g, ' ')
}

/** The figures of each channel at one moment at which nothing is under way. */
async function expectFigures(): Promise<void> {
  const counted = await day.query<{ source: string; state: string; rows: number }>(
    'select source, state, count(*)::int as rows from fillrate.rows group by 1, 2',
  )
  const rowsOf = (source: string, state: string | null): number =>
    counted
      .filter((one) => one.source === source && (state === null || one.state === state))
      .reduce((sum, one) => sum + one.rows, 0)
  const { inputs, calls: made } = day.sandbox.stats()
  const lookups = inputs.requested_singly + inputs.requested_in_bulk
  const { db } = day.database
  const status = { conditions: [], ...(await createStatusReport(db, parsed)) }
  const metrics = new Map(
    [...(await day.read('/metrics')).matchAll(/^(\w+(?:\{[^}]*\})?) (\S+)$/gm)].map(
      ([, name = '', value]) => [name, Number(value)],
    ),
  )
  const text = renderStatus(status, new Output({ write: () => {} }, { color: false }), Date.now()).join('\n')
  const page = await readWords('/')

  for (const source of SOURCES) {
    for (const [state, rows] of Object.entries(status.rows[source] ?? {})) {
      const expected = rowsOf(source, state === 'total' ? null : state)
      expect([source, state, rows]).toEqual([source, state, expected])
      const metric = metrics.get(`fillrate_rows{source="${source}",state="${state}"}`)
      expect([source, state, metric ?? expected]).toEqual([source, state, expected])
    }
    expect(metrics.has(`fillrate_rows{source="${source}",state="enriched"}`)).toBe(true)
    expect(text).toMatch(new RegExp(`ever picked +${rowsOf(source, null)}$`, 'm'))
    const failed = FAILURE_STATES.reduce((sum, state) => sum + rowsOf(source, state), 0)
    const shown = [rowsOf(source, null), rowsOf(source, 'waiting'), failed].join(' ')
    expect([source, page]).toEqual([
      source,
      expect.stringMatching(new RegExp(` ${source} .*% [^%]*${shown} \\d+ `)),
    ])
    const fillRate = status.fill_rate[source]
    if (typeof fillRate !== 'object') throw new Error(`no fill rate of ${source}: ${fillRate}`)
    for (const { column, filled } of fillRate.columns) {
      const ratio = metrics.get(`fillrate_fill_rate_ratio{source="${source}",column="${column}"}`) ?? NaN
      expect(ratio * fillRate.eligible).toBeCloseTo(filled)
    }
  }
  expect(status.spend.today.lookups).toBe(lookups)
  const companies = await number(
    `select count(*) as n from fillrate.lookups where kind = 'domain' and requested_at is not null`,
  )
  const amount = (0.1 * (lookups - companies) + 0.02 * companies).toFixed(2)
  expect(text).toContain(`${lookups} lookups (${amount} EUR) today`)
  // One line a service: calls, 429s and errors of today, and what is billed.
  expect(page).toContain(` ${made.accepted} 0 0 ${lookups} lookups (${amount} EUR) `)
  expect(sumMetrics(metrics, /^fillrate_lookups_spent_today/)).toBe(lookups)
  // Those of the daemon: where a run came first, its process made the calls.
  const calls = sumMetrics(metrics, /^fillrate_requests_total/)
  expect(calls).toBeLessThanOrEqual(made.accepted)
  expect(sumMetrics(metrics, /^fillrate_requests_total.*status="200"/)).toBe(calls)
  expect(sumMetrics(metrics, /^fillrate_request_duration_seconds_count/)).toBe(calls)
  const live = await number(LIVE_SPENT)
  const budget = { kind: 'live_sync', limit: LIVE_BUDGET, spent: live, left: LIVE_BUDGET - live }
  expect(status.spend.budgets).toContainEqual(expect.objectContaining(budget))
  expect(metrics.get('fillrate_budget_remaining_lookups{budget="live_sync"}')).toBe(LIVE_BUDGET - live)
  expect(text).toContain(
    `live sync today: ${(LIVE_BUDGET - live).toLocaleString('en')} of 1,300 lookups left`,
  )

  // Once, with what is billed and not what was claimed.
  const shown = `live sync today 1,300 lookups ${live.toLocaleString('en')} ${(LIVE_BUDGET - live).toLocaleString('en')}`
  expect(page.split(shown)).toHaveLength(2)

  for (const { source, share } of await day.query<{ source: string; share: string }>(SHARES))
    expect([source, page]).toEqual([source, expect.stringMatching(new RegExp(` ${source} (.* )?${share}% `))])
}

const sumMetrics = (metrics: ReadonlyMap<string, number>, name: RegExp): number =>
  [...metrics].reduce((sum, [one, value]) => (name.test(one) ? sum + value : sum), 0)

/** SQL: the share of the cells that were filled at the last count, as the page writes it. */
const SHARES = `
  with shares as (
    select source, id, 100.0 * (select sum(n::numeric) from jsonb_each_text(f -> 'filled') c (name, n))
           / ((f ->> 'eligible')::int * (select count(*) from jsonb_object_keys(f -> 'filled'))) as share
      from fillrate.runs, jsonb_each(totals -> 'fill_rates') c (source, f)
  )
  select distinct on (source) source, regexp_replace(round(share, 1)::text, '\\.0$', '(\\.0)?') as share
    from shares order by source, id desc`

test('every figure equals SQL: after a run, its undo, and live sync', async () => {
  const report = await withApp((app) =>
    app.run(runRequest({ sources: ['contacts', 'accounts'], budget: 20, signal })),
  )
  const written = `select count(*) as n from fillrate.changes c, jsonb_object_keys(after) k where run_id = $1 and k <> 'enriched_at'`
  expect(report.status).toBe('budget_reached')
  expect(report.cells.written).toBe(await number(written, [report.run]))
  expect(report.rows.picked).toBe(await number('select count(*) as n from fillrate.rows'))
  expect(report.reason).toBe(`Stopped at the budget of 20 lookups; ${72 - report.rows.picked} rows remain`)
  await vi.waitFor(expectFigures, WAIT)

  const undo = await withApp((app) => app.undo({ run: report.run, dryRun: false, signal }))
  expect(undo.cells.restored).toBe(await number(written, [undo.run]))
  expect(undo.cells.restored).toBe(report.cells.written)
  expect(await readWords(`/runs/${undo.run}`)).toContain(`undo of run ${report.run}`)
  await vi.waitFor(expectFigures, WAIT)

  const again = await withApp((app) => app.undo({ run: undo.run ?? 0, dryRun: false, signal }))
  expect(again.cells.restored).toBe(undo.cells.restored)
  await vi.waitFor(expectFigures, WAIT)
  const last = await withApp((app) => app.undo({ run: again.run ?? 0, dryRun: false, signal }))
  expect(last.cells.restored).toBe(undo.cells.restored)

  const before = await countAnswered(day)
  await insertContacts(day, 1, 5)
  await expect.poll(() => countAnswered(day)).toBe(before + 5)
  await expect.poll(() => number(`select count(*) as n from fillrate.rows where state = 'waiting'`)).toBe(0)
  await vi.waitFor(expectFigures, WAIT)
})

/** Holds an age of the metrics against the SQL of the time. */
async function expectAge(metric: string, query: string): Promise<void> {
  const [{ at } = { at: new Date(0) }] = await day.query<{ at: Date }>(query)
  const before = Date.now() - at.getTime()
  let seconds = Number.NaN
  const read = async (): Promise<number> => {
    const line = (await day.read('/metrics')).split('\n').find((one) => one.startsWith(`${metric} `))
    seconds = Number(line?.slice(metric.length + 1))
    return seconds
  }
  // What was read a moment ago may be shown again.
  await expect.poll(read, WAIT).toBeGreaterThanOrEqual(before / 1_000)
  expect(seconds).toBeLessThanOrEqual((Date.now() - at.getTime()) / 1_000)
}

/** Rows of contacts that were changed and not picked, by the statement that changed them. */
const unpicked = (name: string): Promise<number> =>
  number(
    `select count(*) as n from crm.contacts c where email like $1
        and not exists (select from fillrate.rows r where r.source = 'contacts' and r.key = c.id::text)`,
    [`${name}%`],
  )

test('what waits for live sync is what it has not picked, of an import that the budget cut short, too', async () => {
  const spent = await number(LIVE_SPENT)
  const waiting = 2_500 - (LIVE_BUDGET - spent)
  const insert = `insert into crm.contacts (email) select $1 || n || '@example.com' from generate_series(1, $2::int) n`
  await day.query(insert, ['import', 2_500])
  await expect.poll(() => unpicked('import'), WAIT).toBe(waiting)
  // Each in one statement. The import has spent what would have paid them.
  for (const part of ['edited1-', 'edited2-']) await day.query(insert, [part, 60])
  const edits = 120

  const metric = async (): Promise<number> =>
    Number(
      /^fillrate_live_sync_backlog_rows\{source="contacts"\} (\d+)$/m.exec(await day.read('/metrics'))?.[1],
    )
  await expect.poll(metric, WAIT).toBe(waiting + edits)
  const changes =
    'select changed_at as at, is_import from fillrate.changed_rows union all select changed_at, is_import from fillrate.changed_rows_spare'
  await expectAge(
    'fillrate_live_sync_oldest_seconds{source="contacts"}',
    `select min(at) as at from (${changes}) c`,
  )
  const leaves = 'changes until midnight UTC'
  const meanings = async (): Promise<string[]> =>
    (JSON.parse(await day.read('/api/status')) as StatusReport).conditions.map(({ meaning }) => meaning)
  // What was read a moment ago may be shown again.
  await expect.poll(meanings, WAIT).toEqual([expect.stringContaining(`${edits} ${leaves}`)])
  await expect.poll(() => readWords('/'), WAIT).toContain(`${edits} ${leaves}`)
})

test('runs in progress and overdue jobs are counted in one way', async () => {
  await expect
    .poll(() => number(`select count(*) as n from fillrate.jobs where finished_at is null`), WAIT)
    .toBe(0)
  // One is expired by the daemon meanwhile, and is overdue as before. The run in progress is older than those that are listed.
  await day.query(
    `insert into fillrate.jobs (key, job_id, state, size, lookup_ids, submitted_at, deadline_at)
     select gen_random_uuid(), 'late' || n, 'submitted', 1, '{0}', now() - interval '1 day', now() - interval '1 minute'
       from generate_series(1, 2) n
     union all select gen_random_uuid(), 'open', 'submitted', 1, '{0}'::bigint[], now(), now() + interval '1 day'`,
  )
  await day.query(
    `insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until, finished_at, options, totals)
     select 'manual', '{accounts}', case when n = 1 then 'running' else 'completed' end, 'x', gen_random_uuid(),
            now() + interval '1 hour', case when n > 1 then now() end, options, '{}'
       from (select options from fillrate.runs order by id limit 1) r, generate_series(1, 15) n order by n`,
  )
  /** Each figure: the SQL that it is, and its field of the status. */
  const figures: [string, (status: StatusReport) => unknown][] = [
    [
      `select count(*) as n from fillrate.jobs where job_id like 'late%'`,
      ({ conditions }) => conditions.find(({ kind }) => kind === 'jobs_overdue')?.title.match(/\d+/)?.[0],
    ],
    [`select count(*) as n from fillrate.jobs where state = 'completed'`, (status) => status.jobs.completed],
  ]
  for (const [query, ofStatus] of figures)
    await vi.waitFor(async () => {
      const figure = await number(query)
      expect(figure).toBeGreaterThan(0)
      expect(String(ofStatus(JSON.parse(await day.read('/api/status')) as StatusReport))).toBe(String(figure))
    }, WAIT)
  const completed = await number(figures[1]?.[0] ?? '')
  await expect
    .poll(() => day.read('/metrics'), WAIT)
    .toContain(`\nfillrate_jobs{state="completed"} ${completed}\n`)
  const running = await number(
    `select count(*) as n from fillrate.runs where state = 'running' and leased_until > now()`,
  )
  const readStatus = async () => JSON.parse(await day.read('/api/status')) as StatusReport
  await expect.poll(async () => (await readStatus()).running_runs, WAIT).toBe(running)
  await expect.poll(() => readWords('/'), WAIT).toMatch(/2 jobs of \S+ are past the deadline/)
  await expectAge(
    'fillrate_oldest_waiting_job_seconds',
    `select min(created_at) as at from fillrate.jobs where job_id = 'open'`,
  )
})

test('a run has one outcome and one number of lookups, on every page', async () => {
  const report = await withApp(
    (app) => app.run(runRequest({ sources: ['contacts'], budget: 5, signal })),
    'refused-key',
  )
  expect(report).toMatchObject({ status: 'unauthorized', rows: { picked: 5 }, spend: { lookups: 0 } })
  const { calls } = report.spend
  expect(calls).toBeGreaterThan(0)
  // Lookups that waited for a permit when the key was refused were not requested.
  expect(report.lookups.requested).toBe(calls)
  const words = `${report.run} unauthorized`
  await expect.poll(() => readWords('/runs')).toMatch(new RegExp(`Run ${words} .* 5 0 0 0 POST `))
  await expect.poll(() => readWords('/')).toMatch(new RegExp(`contacts.* ${words}`))
})
