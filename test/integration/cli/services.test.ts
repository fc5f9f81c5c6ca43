import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startSandbox } from '../../../src/sandbox/server.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { openCommandLine } from './command-line.ts'

// Two services on one database, each with a run of its own: the second one's is for the rows that the first has left blank.

const config = { ...crmConfig, price: { currency: 'EUR', lookup: 0.02 } }
const { database, here } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 60),
  service: { seed: 7, notFoundShare: 0.5 },
  config,
})
const other = await startSandbox({ seed: 11, notFoundShare: 0.2 })
afterAll(() => other.close())
const AT_OTHER = { FILLRATE_BASE_URL: other.url, FILLRATE_API_KEY: other.keys.join(',') }

interface Printed {
  readonly services: readonly Record<string, unknown>[]
  readonly last: readonly unknown[]
}

const print = async (...words: string[]): Promise<Printed> => {
  const { stdout, stderr } = await here(['services', ...words, '--json'])
  expect(stderr).toBe('')
  return JSON.parse(stdout) as Printed
}

test('before the first run it says that there is nothing', async () => {
  const { stdout, code } = await here(['services'])
  expect({ stdout, code }).toEqual({ stdout: 'No service has answered yet.\n', code: 0 })
})

test('with one service it says what there is', async () => {
  await here(['run', '--route', 'sync'])
  const { services, last } = await print()
  expect(services).toHaveLength(1)
  expect(last).toEqual([])
})

describe('with a second one', () => {
  beforeAll(async () => {
    await here(['run', '--route', 'sync'], AT_OTHER)
  })

  test('the counts of each service are those of its lookups, runs and changes', async () => {
    const { services } = await print()
    const stored = await database.query(
      `select s.host, count(l.id)::int as answered, count(*) filter (where l.state = 'found')::int as found,
              (select sum(p.lookups)::int from fillrate.spend p where p.service_id = s.id) as lookups,
              (select count(*)::int from fillrate.changes c join fillrate.lookups o on o.id = c.lookup_id
                 cross join jsonb_object_keys(c.after) k (name) where o.service_id = s.id and k.name <> 'enriched_at') as cells
         from fillrate.services s join fillrate.lookups l on l.service_id = s.id group by s.id order by s.id`,
    )
    expect(stored).toHaveLength(2)
    expect(
      services.map(({ host, answered, found, lookups, cells }) => ({
        host,
        answered,
        found,
        lookups,
        cells,
      })),
    ).toEqual(stored)
    expect(services[1]?.['cells']).toBeGreaterThan(0)
    // The configuration has the price of the first alone.
    expect(services.map(({ cost }) => cost !== null)).toEqual([true, false])
  })

  test('a run that is undone has filled nothing', async () => {
    const [run] = await database.query<{ id: number }>('select max(id)::int as id from fillrate.runs')
    await here(['undo', String(run?.id), '--yes'], AT_OTHER)
    expect((await print()).services.map(({ cells }) => Number(cells) > 0)).toEqual([true, false])
  })

  test('since a day, and no other word for one', async () => {
    expect((await here(['services', '--since', 'yesterday'])).stderr).toContain('30d')
    expect((await print('--since', '1d')).services[0]?.['answered']).toBeGreaterThan(0)
  })
})
