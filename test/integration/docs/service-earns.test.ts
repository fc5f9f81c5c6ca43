import { afterAll, expect, test } from 'vitest'
import { startSandbox } from '../../../src/sandbox/server.ts'
import { codeBlocks } from '../../support/code-blocks.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { openCommandLine } from '../cli/command-line.ts'

// The query of docs/services.md, over two services with a run each: the second one's is for what the first has left blank.

const { database, here } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 60),
  service: { seed: 7, notFoundShare: 0.5 },
  config: crmConfig,
})
const other = await startSandbox({ seed: 11, notFoundShare: 0.2 })
afterAll(() => other.close())
const AT_OTHER = { FILLRATE_BASE_URL: other.url, FILLRATE_API_KEY: other.keys.join(',') }

const query = codeBlocks().find(({ file, language }) => file === 'docs/services.md' && language === 'sql')
const read = () =>
  database.query<{ answered: number; found: number; billed: number; cells: number }>(query?.code ?? '')

test('what each service found and filled is that of its runs, and an undone run has filled nothing', async () => {
  await here(['run', '--route', 'sync'])
  await here(['run', '--route', 'sync'], AT_OTHER)
  const [first, second] = (await read()).map((line) => Object.values(line).slice(1).map(Number))
  const runs = await database.query<{ found: number; billed: number }>(
    `select (select count(*)::int from fillrate.lookups l where l.run_id = r.id and l.state = 'found') as found,
            (select sum(lookups)::int from fillrate.spend s where s.run_id = r.id) as billed
       from fillrate.runs r order by id`,
  )
  expect([first?.[1], first?.[2]]).toEqual([runs[0]?.found, runs[0]?.billed])
  expect([second?.[1], second?.[2]]).toEqual([runs[1]?.found, runs[1]?.billed])
  expect(first?.[4]).toBeGreaterThan(0)
  expect(second?.[4]).toBeGreaterThan(0)
  await here(['undo', '2', '--yes'], AT_OTHER)
  expect((await read()).map(({ cells }) => Number(cells) > 0)).toEqual([true, false])
})
