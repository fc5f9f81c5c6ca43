import { showFound } from '../../../src/sources/problems.ts'
import { sql } from 'kysely'
import { beforeAll, describe, expect, test } from 'vitest'
import { checkSource } from '../../../src/cli/check/database.ts'
import { explainPageFailure } from '../../../src/sources/page-failure.ts'
import { pageQuery } from '../../../src/sources/page.ts'
import { openSource } from '../../../src/sources/source.ts'
import { useTestDatabase } from '../../support/database.ts'
import { mapping } from './mapping.ts'

const database = useTestDatabase()

beforeAll(async () => {
  await database.query(`
    create type stage as enum ('Lead', 'Customer');
    create table accounts (id int primary key, person int, code text);
    create table people (id int primary key, email text, title text, stage stage, updated_at timestamptz, seen_at timestamptz);
    insert into people select n, 'p' || n, null, null, now(), now() from generate_series(1, 2000) n;
    insert into accounts select n, n, n::text from generate_series(1, 2000) n;
    insert into accounts values (5001, 777, '777b'), (5002, 888, 'x');
    analyze`)
})
describe('a page that fails', () => {
  const options = { after: '500', limit: 1000, where: null }

  async function reason(inputs: Record<string, string>, joins: string | null = null): Promise<unknown> {
    const source = await openSource(database.db, mapping({ inputs, joins }))
    const error: unknown = await sql`${pageQuery(source, options)}`
      .execute(database.db)
      .catch((error: unknown) => error)
    const problems = await explainPageFailure(database.db, source, options, error)
    return problems?.problems.map((one) => `${one.place}: ${showFound(one)}`)
  }

  test('names the key that the joins give two rows for', async () => {
    expect(await reason({ email: 't.email' }, 'left join accounts a on a.person = t.id')).toEqual([
      'joins: more than one row, for key 777',
    ])
  })

  test('names the key and the input whose sub-select gives two', async () => {
    expect(
      await reason({ email: 't.email', name: '(select code from accounts where person = t.id)' }),
    ).toEqual(['inputs.name: a sub-select gives more than one row, for key 777'])
  })

  test('names the key and the input that cannot be evaluated', async () => {
    const email = `(select max(code)::int from accounts where person = t.id and t.id > 800)`
    expect(await reason({ email })).toEqual([
      'inputs.email: invalid input syntax for type integer (22P02), for key 888',
    ])
  })

  test('for another reason is not explained', async () => {
    const source = await openSource(database.db, mapping())
    const lost = Object.assign(new Error('terminating connection'), { code: '57P01' })
    expect(await explainPageFailure(database.db, source, options, lost)).toBeNull()
  })
})

describe('remarks on a source that works', () => {
  const places = async (options: Parameters<typeof mapping>[0]): Promise<string[]> =>
    (await checkSource(database.db, mapping(options), {})).problems.map(
      ({ place, found, todo }) => `${place}: ${found} → ${todo}`,
    )

  test('there are none for a sound source', async () => {
    expect(await places({ joins: 'left join accounts a on a.id = t.id' })).toEqual([])
  })
})
