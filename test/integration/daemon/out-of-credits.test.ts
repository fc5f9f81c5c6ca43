import { expect, onTestFinished, test } from 'vitest'
import { startDaemon } from '../../support/app-processes.ts'
import { runRequest, startHarness } from '../../support/harness.ts'
import { playService } from '../../support/paid-services.ts'
import { personSource } from '../../support/crm.ts'

const config = {
  service: {
    name: 'Prepaid',
    person: {
      path: '/person',
      record: { confidence: null },
      read: ({ body }: { readonly body: unknown }) =>
        (body as { left?: number }).left === 0 ? { outcome: 'out_of_credits' } : undefined,
    },
    fields: { person: { title: 'text' } },
  },
  sources: { leads: personSource('leads', { title: 'title' }, { follow: true }) },
  budget: 'unlimited',
}

test('live sync waits for credits; a run of another process finds out for both, and nothing is called twice', async () => {
  let hasCredits = false
  const service = await playService(({ body }, bill) => {
    const { email } = body as { email: string }
    if (!hasCredits) return { body: { left: 0 } }
    bill(email)
    return { body: { title: `Title of ${email}` } }
  })
  const calls = (): number => service.calls.get('/person') ?? 0
  const harness = await startHarness({
    config,
    prepare: async ({ pool }) => {
      await pool.query('create table leads (id int primary key, email text, title text)')
      await pool.query(`insert into leads select n, 'old' || n || '@x.example' from generate_series(1, 5) n`)
    },
  })
  onTestFinished(() => harness.close())
  const environment = { baseUrl: service.url, webhookSecrets: [] }
  const insert = (id: number) =>
    harness.query(`insert into leads values ($1, 'new' || $1::int || '@x.example')`, [id])
  const open = () => harness.open({ environment })
  const conditions = () =>
    harness.query<{ code: string; isOver: boolean }>(
      `select kind, ended_at is not null as "isOver" from fillrate.conditions order by id`,
    )
  const titles = async () =>
    (await harness.query('select from leads where title = $1 || email', ['Title of '])).length

  const daemon = await open()
  await daemon.follow('install', 'leads')
  const stop = startDaemon(daemon)
  try {
    await insert(11)
    await expect.poll(conditions).toEqual([{ kind: 'out_of_credits', isOver: false }])
    expect(calls()).toBe(1)
    await insert(12)
    await expect
      .poll(() => harness.query(`select from fillrate.lookups where key = 'new12@x.example'`))
      .toHaveLength(1)

    const other = await open()
    expect(await other.run(runRequest())).toMatchObject({ status: 'out_of_credits', rows: { waiting: 5 } })
    expect(calls()).toBe(2)
    hasCredits = true
    expect(await other.run(runRequest())).toMatchObject({ status: 'completed', rows: { enriched: 5 } })
    await expect.poll(titles).toBe(7)
    await expect.poll(conditions).toEqual([{ kind: 'out_of_credits', isOver: true }])
    expect(calls()).toBe(2 + 7)
    expect([...service.billed.values()].filter((times) => times !== 1)).toEqual([])
  } finally {
    await stop()
  }
})
