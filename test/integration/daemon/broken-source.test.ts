import { afterAll, beforeAll, expect, test } from 'vitest'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { DayOnCall, FAR_HOUR, followContacts, missNights } from '../../support/day.ts'

// A night in which the table of one of three sources breaks: the others are enriched, and it is one condition with one end.

const nightly = { cron: `0 ${FAR_HOUR} * * *`, timezone: 'UTC', sources: ['contacts', 'accounts', 'leads'] }
/** Not a superuser, to whom neither privileges nor policies apply. */
const ROLE = 'fillrate_night'

let day: DayOnCall
let config: ReturnType<typeof createConfig>
const createConfig = (url: string) => ({
  ...withAccounts,
  sources: {
    ...withAccounts.sources,
    contacts: { ...withAccounts.sources.contacts, follow: true },
    leads: { ...withAccounts.sources.contacts, table: 'crm.leads', outputs: { title: 'title' }, touch: {} },
  },
  schedule: [nightly],
  budget: 1_000,
  liveSync: { budget: 100 },
  notify: [{ url, on: ['error', 'warning'] }],
})

beforeAll(async () => {
  day = await DayOnCall.open({ jobDelayMs: 100, notFoundShare: 0 })
  const { database } = day
  await createCrm(database.pool, 20, 12)
  await day.query('create table crm.leads (id int primary key, email text, title text)')
  config = createConfig(day.notifyUrl)
  await followContacts(day, config)
  await day.query(`
    do $$ begin create role ${ROLE} login password '${ROLE}'; exception when duplicate_object then null; end $$; alter role ${ROLE} password '${ROLE}';
    grant all on schema fillrate, crm to ${ROLE};
    grant all on all tables in schema fillrate, crm to ${ROLE};
    grant all on all sequences in schema fillrate, crm to ${ROLE}`)
  await day.start(config, { user: ROLE })
})
afterAll(() => day.close())

const missNight = async (): Promise<void> => {
  await expect
    .poll(() => day.database.count(`fillrate.scheduled_runs where state in ('waiting', 'running')`))
    .toBe(0)
  await missNights(day, nightly)
}
const addAccounts = (name: string): Promise<unknown> =>
  day.query(
    `insert into crm.accounts (website) select 'https://${name}' || n || '.example' from generate_series(1, 5) n`,
  )
/** All but the one that this test makes by setting the schedule back. */
const conditions = () =>
  day.query<{ kind: string; source: string; ended: boolean }>(
    `select kind, source, ended_at is not null as ended from fillrate.conditions where kind <> 'late' order by id`,
  )

test('a change of a followed source waits for its mend', async () => {
  await day.query('alter table crm.contacts rename column phone to telephone')
  await day.see('source_broken')
  await day.query(`insert into crm.contacts (email) values ('edited@example.com')`)
  await day.query('alter table crm.contacts rename column telephone to phone')
  await day.over('source_broken')
  await expect
    .poll(() => day.database.count(`crm.contacts where email = 'edited@example.com' and phone is not null`))
    .toBe(1)
  expect(await conditions()).toEqual([{ kind: 'source_broken', source: 'contacts', ended: true }])
})

const breakages = [
  {
    title: 'a renamed column',
    breaks: 'alter table crm.contacts rename column seniority to seniority_level',
    mends: 'alter table crm.contacts rename column seniority_level to seniority',
    says: 'seniority_level',
  },
  {
    title: 'a privilege that is revoked',
    breaks: `revoke update on crm.contacts from ${ROLE}`,
    mends: `grant update on crm.contacts to ${ROLE}`,
    says: 'grant update',
  },
  {
    title: 'row-level security that hides all rows',
    breaks: 'alter table crm.contacts enable row level security',
    mends: 'alter table crm.contacts disable row level security',
    says: 'create policy',
  },
]

test.each(breakages)(
  '$title: one condition, the other sources are enriched, and it ends with the mend',
  async ({ title, breaks, mends, says }) => {
    const before = await conditions()
    await day.query(breaks)
    await day.see('source_broken')
    for (const page of ['/api/status', '/', '/sources/contacts'])
      expect((await day.read(page)).toLowerCase()).toContain(says)
    expect(await day.read('/')).toContain('left out')
    await addAccounts(title.replaceAll(/[^a-z]/g, ''))
    await missNight()
    await expect.poll(() => day.database.count('crm.accounts where industry is null')).toBe(0)
    await expect
      .poll(() =>
        day.database.count(`fillrate.scheduled_runs where state = 'done' and at > now() - interval '2 days'`),
      )
      .toBe(1)
    expect((await conditions()).slice(before.length)).toEqual([
      { kind: 'source_broken', source: 'contacts', ended: false },
    ])
    const [run] = await day.query<{ totals: { left_out: { source: string }[] } }>(
      `select totals from fillrate.runs where trigger = 'schedule' order by id desc limit 1`,
    )
    expect(run?.totals.left_out).toMatchObject([{ source: 'contacts' }])
    await day.query(mends)
    await day.over('source_broken')
    const ended = [{ kind: 'source_broken', source: 'contacts', ended: true }]
    expect((await conditions()).slice(before.length)).toEqual(ended)
    await day.query(
      `insert into crm.contacts (id, email) overriding system value select max(id) + 1000, 'later' || max(id) || '@example.com' from crm.contacts`,
    )
    await missNight()
    await expect.poll(() => day.database.count('crm.contacts where seniority is null')).toBe(0)
    expect((await conditions()).slice(before.length)).toEqual(ended)
  },
)

test('rows that were paid before their source broke wait, and are written after the mend without another call', async () => {
  await day.query(
    `insert into crm.leads select n, 'lead' || n || '@example.com' from generate_series(1, 3) n`,
  )
  const locker = await day.database.pool.connect()
  await locker.query('begin; select from crm.leads for update')
  await missNight()
  await expect
    .poll(() =>
      day.database.count(
        `fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id where r.source = 'leads' and l.state = 'found'`,
      ),
    )
    .toBe(3)
  const { inputs } = day.sandbox.stats()
  await locker.query('alter table crm.leads rename column title to job_title; commit')
  locker.release()
  await day.see('source_broken')
  await expect
    .poll(() => day.database.count(`fillrate.runs where state = 'running' and trigger = 'schedule'`))
    .toBe(0)
  const states = () => day.query(`select distinct state from fillrate.rows where source = 'leads'`)
  expect(await states()).toEqual([{ state: 'waiting' }])
  expect(await day.database.count(`fillrate.conditions where kind = 'run_failed'`)).toBe(0)
  await day.query('alter table crm.leads rename column job_title to title')
  await day.over('source_broken')
  await expect.poll(() => day.database.count('crm.leads where title is null')).toBe(0)
  await expect.poll(states).toEqual([{ state: 'enriched' }])
  expect(day.sandbox.stats().inputs).toEqual(inputs)
})

test('a daemon starts without a source that is broken, and a changed configuration mends it', async () => {
  const before = await conditions()
  await day.stopAll()
  await day.query('alter table crm.leads rename column title to job_title')
  await day.start(config, { user: ROLE })
  await day.see('source_broken')
  await addAccounts('start')
  await missNight()
  await expect.poll(() => day.database.count('crm.accounts where industry is null')).toBe(0)
  const leads = { ...config.sources.leads, outputs: { job_title: 'title' } }
  await day.stopAll()
  await day.start({ ...config, sources: { ...config.sources, leads } }, { user: ROLE })
  await day.over('source_broken')
  expect((await conditions()).slice(before.length)).toEqual([
    { kind: 'source_broken', source: 'leads', ended: true },
  ])
})
