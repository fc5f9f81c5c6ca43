import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  ConfigProblems,
  createFillrate,
  SchemaMissingError,
  SourceProblems,
  type Fillrate,
} from '../../../src/index.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { useHarness, stateSum, type Harness } from '../../support/harness.ts'

let fillrate: Fillrate
const harness = useHarness({
  config: crmConfig,
  prepare: async ({ pool }) => {
    await createCrm(pool, 40)
    await pool.query('drop schema fillrate cascade')
  },
})
beforeAll(async () => {
  fillrate = await createFillrate({ config: { ...crmConfig }, env: envOf(harness), migrate: true })
})
afterAll(() => fillrate.close())

const envOf = ({ database, sandbox }: Harness): Record<string, string> => ({
  DATABASE_URL: database.url,
  FILLRATE_BASE_URL: sandbox.url,
  FILLRATE_API_KEY: sandbox.keys[0] ?? '',
})

test('plan, run, explain and undo work as the commands do', async () => {
  const plan = await fillrate.plan()
  expect(harness.calls()).toBe(0)
  const picked: number[] = []
  const report = await fillrate.run({
    limit: 30,
    onProgress: (progress) => void picked.push(progress.picked),
  })
  expect(report).toMatchObject({ status: 'completed', rows: { picked: 30 } })
  expect(stateSum(report)).toBe(30)
  expect(picked.at(-1)).toBe(30)
  expect(JSON.stringify(plan)).toContain('contacts')
  const rows = await harness.query<{ key: string }>(
    `select key from fillrate.rows where state = 'enriched' order by key limit 1`,
  )
  const key = rows[0]?.key ?? ''
  expect((await fillrate.explain('contacts', key)).changes).toHaveLength(1)
  const undone = await fillrate.undo(report.run)
  expect(undone.status).toBe('completed')
  expect((await fillrate.explain('contacts', key)).state?.reason).toContain('undone by run')
})

test('an aborted run saves its state, and the next run continues', async () => {
  const stop = new AbortController()
  harness.sandbox.configure({ latencyAfterMs: [50, 50] })
  const report = await fillrate.run({
    signal: stop.signal,
    onProgress: ({ picked }) => {
      if (picked > 0) stop.abort()
    },
  })
  expect(report.status).toBe('interrupted')
  const rest = await fillrate.run()
  expect(rest.status).toBe('completed')
  expect(rest.rows.waiting).toBe(0)
})

test('start runs the daemon until its signal aborts', async () => {
  const stop = new AbortController()
  const listening = Promise.withResolvers<string>()
  const daemon = fillrate.start({
    signal: stop.signal,
    onListening: (url) => listening.resolve(url ?? ''),
  })
  const url = await listening.promise
  await expect.poll(async () => (await fetch(`${url}/readyz`)).status).toBe(200)
  stop.abort()
  await daemon
  await expect(fetch(`${url}/healthz`)).rejects.toThrow('fetch failed')
})

test.each<[unknown, string]>([
  [{ budget: Number.NaN }, 'budget'],
  [{ budget: -1 }, 'budget'],
  [{ budget: 'abc' }, 'budget'],
  [{ route: 'bluk' }, 'route'],
  [{ limit: 0 }, 'limit'],
  [{ where: '' }, 'where'],
  [{ sources: 'contacts' }, 'sources'],
  [{ buget: 5 }, 'buget'],
  [{ waitMs: -1 }, 'waitMs'],
  [{ dryRun: true }, 'dryRun'],
  [{ signal: new AbortController() }, 'signal'],
])('a run refuses %j, and names it', async (options, place) => {
  const refused = await fillrate.run(options as object).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(ConfigProblems)
  expect((refused as ConfigProblems).problems.map((problem) => problem.place)).toEqual([place])
})

test('what else is given is checked, too', async () => {
  const refused = (words: string) => expect.objectContaining({ message: expect.stringContaining(words) })
  await expect(fillrate.plan({ waitMs: 5 } as object)).rejects.toEqual(refused('waitMs'))
  const open = { config: { ...crmConfig }, env: envOf(harness), migrte: true }
  await expect(createFillrate(open)).rejects.toEqual(refused("'migrate'"))
})

test('errors are those of the command line', async () => {
  await expect(createFillrate({ config: { ...crmConfig }, env: {} })).rejects.toBeInstanceOf(ConfigProblems)
  await expect(fillrate.run({ sources: ['contcts'] })).rejects.toThrow('no such source')
  await expect(createFillrate({ config: 'nowhere.config.ts', env: envOf(harness) })).rejects.toBeInstanceOf(
    ConfigProblems,
  )
  const { contacts, ...sources } = crmConfig.sources
  const wrong = { ...crmConfig, sources: { ...sources, contacts: { ...contacts, table: 'nowhere' } } }
  const alone = { ...wrong, sources: { contacts: wrong.sources.contacts } }
  await expect(createFillrate({ config: alone, env: envOf(harness) })).rejects.toBeInstanceOf(SourceProblems)
  await harness.database.query('alter schema fillrate rename to aside')
  const open = createFillrate({ config: { ...crmConfig }, env: envOf(harness) })
  await expect(open).rejects.toBeInstanceOf(SchemaMissingError)
  await harness.database.query('alter schema aside rename to fillrate')
})
