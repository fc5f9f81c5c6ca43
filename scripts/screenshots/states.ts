import type { Config } from '../../src/config/config.ts'
import { parseConfig } from '../../src/config/parse.ts'
import type { Page } from 'playwright-core'
import type { DashboardToken } from '../../src/config/env-values.ts'
import { createCrm } from '../../src/demo/crm/crm.ts'
import { demoConfig, type DemoSettings, FULL_DEMO } from '../../src/demo/settings.ts'
import { reportTroubles } from '../../src/store/troubles.ts'
import { TROUBLE_CODES, type TroubleDetails } from '../../src/domain/trouble.ts'
import { openSetting, READER, type Setting } from './setting.ts'

/** A dashboard in one state, and its pages. */
export interface DashboardState extends Pick<Setting, 'at' | 'client' | 'close'> {
  readonly name: string
  readonly pages: ReadonlyArray<string | Visit>
}

/** A page that shows something only after it was used. A page without such a visit is its address. */
export interface Visit {
  readonly name: string
  readonly path: string
  /** Whose session; null: none. Default: an operator's. */
  readonly as?: DashboardToken | null
  readonly act?: (page: Page) => Promise<unknown>
}

const CONFIG: Config = {
  ...demoConfig(FULL_DEMO, { isAlone: true }),
  schedule: [
    {
      cron: '15 2 * * *',
      timezone: 'Europe/Berlin',
      sources: ['accounts', 'contacts'],
      budget: null,
      limit: null,
      catchUp: true,
    },
  ],
  price: { currency: 'EUR', person: 0.05, company: 0.02 },
  // Nothing listens there: what is sent waits, and the page says why.
  notify: [{ url: 'http://127.0.0.1:9/hooks/fillrate', form: 'json', on: ['error'] }],
}

const pagesOf = (source: string, more: readonly string[] = []): string[] => [
  ...'/ /sources /rows /failures /runs /jobs /service /service?hours=24 /services /spend /system /audit'.split(
    ' ',
  ),
  '/runs/new',
  `/runs/start?source=${source}&budget=500`,
  '/retry',
  ...['', '/pause', '/resume', '/erase'].map((action) => `/sources/${source}${action}`),
  '/rows?state=not_enriched',
  '/nowhere',
  '/runs/999999',
  '/sources/none',
  '/row?source=none&key=1',
  ...more,
]

const openDemo = (
  server: string,
  name: string,
  settings: Partial<DemoSettings>,
  config: Config = CONFIG,
): Promise<Setting> =>
  openSetting(server, name, {
    config,
    settings,
    prepare: (client) => createCrm(client, { ...FULL_DEMO, ...settings }),
  })

/** Nothing has run yet. */
export async function openEmpty(server: string): Promise<DashboardState> {
  const setting = await openDemo(server, 'empty', { accounts: 20, contacts: 80 })
  const signIn = (page: Page, token: string) =>
    page.fill('#token', token).then(() => page.keyboard.press('Enter'))
  return {
    ...setting,
    name: 'empty',
    pages: [
      ...pagesOf('contacts'),
      { name: 'reader', path: '/', as: READER },
      { name: 'reader-forbidden', path: '/runs/new', as: READER },
      { name: 'sign-in', path: '/login', as: null },
      {
        name: 'wrong-token',
        path: '/login',
        as: null,
        act: (page) => signIn(page, 'wrong').then(() => page.locator('#fault').waitFor()),
      },
    ],
  }
}

/** Postgres is stopped while a page is open, and others are opened. Nothing of the server can be used after it. */
export async function openAway(server: string, stopServer: () => Promise<void>): Promise<DashboardState> {
  const setting = await openDemo(server, 'away', { accounts: 20, contacts: 80 })
  await setting.run({ limit: 20 })
  const dropSchema = () => setting.client.query('alter schema fillrate rename to gone')
  return {
    ...setting,
    name: 'away',
    pages: [
      {
        name: 'schema-missing',
        path: '/',
        act: (page) => dropSchema().then(() => page.locator('#verdict.outage').waitFor()),
      },
      { name: 'runs-schema-missing', path: '/runs' },
      {
        name: 'open-page',
        path: '/nowhere',
        act: async (page) => {
          await setting.client.query('alter schema gone rename to fillrate')
          await page.goto(setting.at)
          await page.locator('#connection', { hasText: 'live' }).waitFor()
          await stopServer()
          await page.locator('#verdict.outage').waitFor()
        },
      },
      '/',
      '/runs',
      '/rows',
      '/login',
    ],
  }
}

/** A daemon with live sync, a run in progress, and some that have ended. */
export async function openRunning(server: string): Promise<DashboardState> {
  const setting = await openDemo(
    server,
    'running',
    { limit: 40 },
    { ...CONFIG, sources: withFollow(CONFIG.sources, 'accounts') },
  )
  await setting.app.follow('install', 'accounts')
  await setting.startDaemon()
  await setting.run({ sources: ['accounts'], limit: 120 })
  await setting.run({ sources: ['contacts'], limit: 60, dryRun: { sample: 5 } })
  await setting.client.query(
    `update crm.accounts set website = website || '/', technologies = null where id between 300 and 340`,
  )
  // One by one at twenty calls a second, it lasts longer than the pictures take.
  setting.run({ route: 'sync' }).catch(() => {})
  await waitFor(setting, `select from fillrate.rows where state = 'enriched' offset 450`)
  const run = await findRun(setting, `state = 'running' and trigger = 'manual'`)
  const key = await findKey(setting, 'contacts')
  return {
    ...setting,
    name: 'running',
    pages: pagesOf('contacts', [
      `/runs/${run}`,
      `/runs/${run}/cancel`,
      `/row?source=contacts&key=${key}`,
      '/runs/1',
      '/runs/1/undo',
      '/runs/2',
    ]),
  }
}

const withFollow = (sources: Config['sources'], name: string): Config['sources'] =>
  Object.fromEntries(
    Object.entries(sources).map(([one, mapping]) => [
      one,
      { ...mapping, follow: one === name || mapping.follow },
    ]),
  )

const LONG_REASON =
  'new row for relation "contacts" violates check constraint "contacts_are_reviewed_before_they_change": ' +
  'the record was signed off by the revenue operations team and is locked until the end of the quarter; '.repeat(
    5,
  )

/** Everything that can go wrong at once: really where it is quick, else as it would be stored. */
export async function openTrouble(server: string): Promise<DashboardState> {
  const setting = await openDemo(server, 'trouble', { accounts: 60, contacts: 400, limit: 2_000 })
  const { client, service } = setting
  await client.query(`
    create function crm.reject() returns trigger language plpgsql as
      $$ begin raise exception using errcode = 'check_violation', message = '${LONG_REASON.replaceAll("'", "''")}'; end $$;
    update crm.contacts set email = 'not an e-mail <' || id || '>' where id % 11 = 0;
    create trigger reject before update on crm.contacts for each row when (old.id % 7 = 0) execute function crm.reject()`)
  await setting.run({ limit: 200 })
  // More than a tenth of a source is gone: nothing of it is erased without a confirmation.
  await client.query(`delete from crm.contacts where id <= 60 and id % 7 <> 0`)
  await setting.run({ sources: ['contacts'], budget: 40 })
  service.configure({ keys: ['another-key'] })
  await setting.run({ waitMs: 0 }).catch(() => {})
  await client.query(`
    insert into fillrate.paused_sources (source, paused_at, paused_by, reason, resume_at)
    values ('accounts', now() - interval '3 hours', 'ben', 'the territory import of the German team runs until the evening; enriching now would pay for rows that are merged tomorrow', now() + interval '5 hours');
    insert into fillrate.scheduled_runs (schedule, at, sources, state, reason, finished_at)
    select '15 2 * * * | Europe/Berlin', date_trunc('day', now()) - n * interval '1 day', '{accounts,contacts}', 'skipped',
           'the run of the day before was still in progress', now() - n * interval '1 day' from generate_series(1, 4) n;
    insert into fillrate.spend (run_id, day, source, endpoint, calls, retried, throttled, lookups, in_doubt, credits, credits_in_doubt, returned)
    select 1, (now() at time zone 'UTC')::date - n, 'contacts', 'person', 900 - 40 * n, n, 0, 890 - 40 * n, n % 3, 2100 - 99 * n, 5 * (n % 3), 0
      from generate_series(1, 12) n;
    insert into fillrate.processes (owner, role, host, pid, version, node_version, config, config_path, started_at, seen_at)
    select 'crm-worker-2.internal:4711:' || state, 'start', 'crm-worker-2.internal', 4711, '0.9.1', '24.3.0', config,
           '/etc/fillrate/fillrate.config.ts', now() - interval '9 days', at
      from fillrate.processes, (values ('gone', now() - interval '4 minutes'), ('old', now() + interval '1 hour')) v (state, at) limit 2;
    insert into fillrate.audit_events (actor, origin, action, parameters, outcome, detail, finished_at)
    values ('anna', 'dashboard', 'pause', '{"sources":["accounts"],"reason":"territory import"}', 'done', null, now()),
           ('deploy', 'command line', 'run', '{"sources":["accounts","contacts"],"budget":1000}', 'failed',
            'the service rejects every key (HTTP 401)', now()),
           ('ben', 'dashboard', 'undo', '{"run":1}', null, null, null)`)
  const details: TroubleDetails = {
    reason: 'HTTP 503',
    waiting: 2_220,
    limit: 5_000,
    run: 3,
    process: 'crm-worker-1.internal:4712',
    until: new Date(Date.now() + 240_000).toISOString(),
    ms: 754_000,
  }
  const since = new Date(Date.now() - 754_000)
  await reportTroubles(
    setting.app.db,
    { reporter: 'screenshots', codes: [] },
    TROUBLE_CODES.map((code, n) => ({
      code,
      subject: subjectOf(code),
      details,
      since: new Date(since.getTime() + n * 9_000),
    })),
  )
  // Seen later than any watch looks: none of them ends while the pictures are taken.
  await client.query(`update fillrate.troubles set seen_at = now() + interval '1 hour'`)
  const key = await findKey(setting, 'contacts', `state = 'write_rejected'`)
  return {
    ...setting,
    name: 'trouble',
    pages: pagesOf('accounts', [
      '/sources/contacts',
      '/sources/contacts/erase',
      `/row?source=contacts&key=${key}`,
      '/rows?source=contacts&state=write_rejected',
      '/retry?source=contacts&state=write_rejected',
      '/runs/1',
      '/runs/2',
      '/runs/3',
      '/runs/1/undo',
    ]),
  }
}

function subjectOf(code: (typeof TROUBLE_CODES)[number]): string {
  if (/^service|^circuit|key|banned|calls/.test(code)) return 'api.enrichment.example.com 62af8704'
  if (/^run|erase|behind/.test(code)) return 'contacts'
  if (code === 'schedule_late') return '15 2 * * * | Europe/Berlin'
  return code === 'notification_failed' ? 'ops.example.com' : ''
}

const WIDE_SOURCES = 20
/** 63 characters, the most that a source, a table and a column may have. */
const longName = (n: number, kind: string): string =>
  `${kind}_${String(n).padStart(2, '0')}_of_the_customer_success_region_emea_and_latin_america_2026`.slice(
    0,
    63,
  )

/** Twenty sources, all names as long as they may be. */
export async function openWide(server: string): Promise<DashboardState> {
  const names = Array.from({ length: WIDE_SOURCES }, (_, n) =>
    longName(n + 1, n % 4 === 3 ? 'organisations' : 'people'),
  )
  const isPeople = (name: string): boolean => name.startsWith('people')
  const column = longName(1, 'job_title_column')
  const config = parseConfig(
    {
      sources: Object.fromEntries(
        names.map((name) => [
          name,
          isPeople(name)
            ? {
                kind: 'person',
                table: `crm.${name}`,
                inputs: { email: 't.email' },
                outputs: { [column]: 'title', phone: 'phone', seniority: 'seniority' },
              }
            : {
                kind: 'company',
                table: `crm.${name}`,
                inputs: { domain: 't.domain' },
                outputs: { [column]: 'industry', employees: 'employee_count' },
              },
        ]),
      ),
      budget: 'unlimited',
      schedule: [
        { cron: '0 3 * * *', timezone: 'America/Argentina/ComodRivadavia', sources: names },
        { cron: '*/30 * * * *', sources: names.slice(0, 1) },
      ],
    },
    null,
  )
  const setting = await openSetting(server, 'wide', {
    config,
    settings: { limit: 5_000 },
    prepare: async (client) => {
      await client.query('create schema crm')
      for (const name of names)
        await client.query(
          isPeople(name)
            ? `create table crm.${name} (id text primary key, email text, ${column} text, phone text, seniority text);
               insert into crm.${name} select '0035g00000' || repeat('x', 40) || n, 'ada.${name.slice(0, 9)}.' || n || '@example.com', null, null, null from generate_series(1, 12) n`
            : `create table crm.${name} (id text primary key, domain text, ${column} text, employees integer);
               insert into crm.${name} select 'org-' || n, 'a-company-with-a-very-long-domain-name-${name.slice(14, 16)}-' || n || '.example.com', null, null from generate_series(1, 12) n`,
        )
    },
  })
  await setting.startDaemon()
  await setting.run({ sources: names.slice(0, 3) })
  await setting.run()
  const [first = ''] = names
  await setting.client.query(
    `insert into fillrate.paused_sources (source, paused_by, reason) values ($1, 'ben', 'a migration')`,
    [names[4]],
  )
  const key = await findKey(setting, first)
  return {
    ...setting,
    name: 'wide',
    pages: pagesOf(first, [
      `/runs/2`,
      `/runs/2/undo`,
      `/row?source=${first}&key=${key}`,
      `/runs/start?${names.map((name) => `source=${name}`).join('&')}&budget=500`,
    ]),
  }
}

async function findKey(
  { client }: Setting,
  source: string,
  condition = `state = 'enriched'`,
): Promise<string> {
  const { rows } = await client.query<{ key: string }>(
    `select key from fillrate.rows where source = $1 and ${condition} order by key limit 1`,
    [source],
  )
  return encodeURIComponent(rows[0]?.key ?? '')
}

async function findRun({ client }: Setting, condition: string): Promise<number> {
  const { rows } = await client.query<{ id: number }>(`select id::int from fillrate.runs where ${condition}`)
  return rows[0]?.id ?? 0
}

const eur = (lookup: number) => ({ price: { currency: 'EUR', lookup } })

/** Three services in order, of which the second fills what the first left blank. */
export async function openServices(server: string): Promise<DashboardState> {
  const config = parseConfig(
    {
      services: {
        acme: { ...eur(0.04), bulk: { minimum: 1_000 } },
        pdl: { ...eur(0.28), bulk: { minimum: 1_000 }, budget: { amount: 90, currency: 'EUR' } },
        hunter: { ...eur(0.07), bulk: { minimum: 1_000 } },
      },
      sources: {
        contacts: {
          kind: 'person',
          table: 'crm.contacts',
          inputs: { email: 't.email' },
          services: ['acme', { name: 'pdl', when: 'blank' }, 'hunter'],
          outputs: { title: 'title', phone: 'phone' },
        },
      },
      budget: { amount: 200, currency: 'EUR' },
    },
    null,
  )
  const setting = await openSetting(server, 'services', {
    config,
    services: {
      acme: { notFoundShare: 0.4, missingShare: 0.3, seed: 1, limit: 200, windowMs: 1_000 },
      pdl: { notFoundShare: 0.3, missingShare: 0.1, seed: 2, limit: 60, windowMs: 1_000 },
      hunter: { notFoundShare: 0.55, missingShare: 0.2, seed: 3, limit: 100, windowMs: 1_000 },
    },
    prepare: (client) => createCrm(client, { ...FULL_DEMO, contacts: 900, accounts: 20 }),
  })
  await setting.run({ route: 'sync', limit: 300 })
  await setting.run({ route: 'sync', budget: undefined })
  // A row that went through two services.
  const key = await findKey(setting, 'contacts', `state = 'enriched' and only_blanks and cells_written > 1`)
  return {
    ...setting,
    name: 'services',
    pages: pagesOf('contacts', [
      `/row?source=contacts&key=${key}`,
      '/services?source=contacts&order=hunter,acme,pdl',
      '/runs/4',
      '/runs/5',
      '/runs/4/undo',
    ]),
  }
}

/** Until a statement finds a row. */
async function waitFor({ client }: Setting, statement: string): Promise<void> {
  const until = Date.now() + 120_000
  while (((await client.query(`${statement} limit 1`)).rowCount ?? 0) === 0) {
    if (Date.now() > until) throw new Error(`still nothing after two minutes: ${statement}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}
