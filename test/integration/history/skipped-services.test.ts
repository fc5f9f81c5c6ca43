import { afterAll, beforeAll, expect, test } from 'vitest'
import { type CommandLine, createCommandLine } from '../../support/cli.ts'
import { runProgram } from '../../support/program.ts'
import { useHarness } from '../../support/harness.ts'
import { withPeople } from '../../support/crm.ts'

// What two services in turn have skipped of a row.

const configOf = (betaLevel: object) => ({
  services: { acme: {}, beta: {} },
  sources: {
    people: {
      kind: 'person',
      table: 'people',
      inputs: { email: 't.email' },
      services: ['acme', { name: 'beta', when: 'blank' }],
      outputs: {
        title: 'title',
        // No record of either fits, but for the two that `beta` knows.
        rank: { acme: { field: 'seniority', map: {} }, beta: { field: 'seniority', map: { vp: 'VP' } } },
        level: { acme: 'department', beta: betaLevel },
        age: { beta: 'department' },
      },
    },
  },
  budget: 'unlimited',
})
const config = configOf({ field: 'seniority', map: {} })

let cli: CommandLine
const services = useHarness({
  config,
  services: {
    acme: { notFoundShare: 0.3, missingShare: 0.2, seed: 1 },
    beta: { notFoundShare: 0.3, missingShare: 0.2, seed: 2 },
  },
  prepare: withPeople(120, 'rank text, level smallint, age smallint'),
})
beforeAll(async () => {
  await services.run({ route: 'sync' })
  cli = await createCommandLine(services.database.url, services.sandboxes, config)
})
afterAll(() => cli.remove())

const fillrate = (...words: string[]) => runProgram({ cwd: cli.folder, env: cli.environment }, ...words)

const RECORDS = `
  people p
    left join (fillrate.lookups a join fillrate.services s on s.id = a.service_id and s.name = 'acme') on a.key = p.email
    left join (fillrate.lookups b join fillrate.services t on t.id = b.service_id and t.name = 'beta') on b.key = p.email`
/** What the records say of each cell: of two services that skip it, the first one is named. */
const WANTED = `
  select p.id::text as key, c."column", c.service from ${RECORDS} cross join lateral (
    select 'rank' as "column", case when a.record ->> 'seniority' is not null then 'acme' else 'beta' end as service
     where coalesce(a.record ->> 'seniority', b.record ->> 'seniority') is not null and p.rank is null
    union all
    select 'level', case when a.record ->> 'department' is not null then 'acme' else 'beta' end
     where coalesce(a.record ->> 'department', b.record ->> 'seniority') is not null
    union all select 'age', 'beta' where b.record ->> 'department' is not null) c`
const STORED = `
  select c.key, c."column", s.name as service from fillrate.skipped_cells c
    join fillrate.lookups l on l.id = c.lookup_id join fillrate.services s on s.id = l.service_id`

const ofBoth = () =>
  services.count(`(${STORED}) one join (${STORED}) other using (key) where one.service < other.service`)

test('what a service skipped stays noted when the next one finishes the row, unless that fills the cell', async () => {
  const { database } = services
  expect(await ofBoth()).toBeGreaterThan(0)
  expect(await services.count(`people where rank = 'VP'`)).toBeGreaterThan(0)
  expect(await database.checksum(`(${STORED})`)).toBe(await database.checksum(`(${WANTED})`))
  const app = await services.open()
  const key = await database.scalar<string>(
    `select min(one.key) from (${STORED}) one join (${STORED}) other using (key)
      where one."column" = 'level' and one.service = 'acme' and other.service = 'beta'`,
  )
  const { fields } = await app.explain('people', key)
  await app.close()
  const explained = fields.filter(({ column }) => column === 'level').map((one) => [one.service, one.result])
  expect(explained).toContainEqual(['acme', 'not written: the value is not an integer'])
  expect(explained).not.toContainEqual(['beta', 'not written: the value is not an integer'])
})

test('the CSV of failures names the service of each row and cell in its last column', async () => {
  const text = (await fillrate('failures', '--csv')).stdout
  const [head, ...lines] = text.trim().split('\r\n')
  expect(head).toBe('source,key,state,reason,settled_at,column,value,service')
  const cells = lines.map((line) => line.split(',')).map((fields) => [fields[1], fields[5], fields.at(-1)])
  const stored = await services.query<Record<string, string>>(`${STORED} order by c.key, c."column"`)
  expect(cells).toEqual(stored.map(({ key, column, service }) => [key, column, service]))
  expect(new Set(cells.map((fields) => fields.at(-1)))).toEqual(new Set(['acme', 'beta']))
})

test('a remap notes what each service skips', async () => {
  const { database } = services
  const stored = await database.checksum(`(${STORED})`)
  const { signal } = new AbortController()
  const remap = async (changed: object) => {
    const app = await services.open({ config: changed })
    return app.remap({ source: 'people', dryRun: false, sample: 0, signal }).finally(() => app.close())
  }
  expect(await remap(config)).toMatchObject({ examined: { changed: 0 } })
  expect(await database.checksum(`(${STORED})`)).toBe(stored)
  const filled = configOf({ field: 'seniority', map: { vp: 3 } })
  expect((await remap(filled)).examined.changed).toBeGreaterThan(0)
  const wanted = `${WANTED} where c."column" <> 'level' or p.level is null`
  expect(await services.count('people where level = 3')).toBeGreaterThan(0)
  expect(await database.checksum(`(${STORED})`)).toBe(await database.checksum(`(${wanted})`))
})
