import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { createPrompt, type Prompt } from './prompt.ts'

let database: TestDatabase
let empty: TestDatabase
let prompt: Prompt
beforeAll(async () => {
  database = await createTestDatabase()
  empty = await createTestDatabase()
  await database.query(`
    create schema crm;
    create table crm.accounts (id int primary key, name text, website text, industry text);
    create table crm.contacts (id int primary key, account_id int references crm.accounts, first_name text, last_name text,
      email text, title text, phone text, deleted_at timestamptz);
    insert into crm.accounts select n, 'Acme ' || n, 'acme' || n || '.example', case when n % 4 = 0 then 'Paper' end
      from generate_series(1, 20) n;
    insert into crm.contacts (id, account_id, first_name, last_name, email, title)
      select n, n % 20 + 1, 'Secret', 'Person', 'secret.person' || n || '@acme.example', case when n % 2 = 0 then 'Buyer' end
        from generate_series(1, 40) n`)
})
afterAll(async () => {
  await database.drop()
  await empty.drop()
})
beforeEach(async () => {
  prompt = await createPrompt(database.url)
})
afterEach(() => prompt.remove())

describe('without prompts', () => {
  test('writes all sources with their fill rates, and no value of a row', async () => {
    const { code, stdout, stderr } = await prompt.run(['--yes'])
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toContain('Wrote fillrate.config.ts, 2 sources')
    expect(stdout).toMatch(/title +← title +50\.0%/)
    expect(stdout).toMatch(/industry +← industry +25\.0%/)
    const text = await prompt.read('fillrate.config.ts')
    expect(text).toContain("title: 'title', // 50.0% filled, text")
    // Nobody has confirmed it.
    expect(text.match(/^ +reviewed: false,$/gm)).toHaveLength(2)
    expect(text).toContain("industry: 'industry', // 25.0% filled, text")
    expect(text).toContain('joins: ')
    for (const shown of [stdout, text]) expect(shown).not.toMatch(/secret|buyer|paper/i)
  })

  test('fits a terminal of 80 columns', async () => {
    const { stdout } = await prompt.run(['--yes'], '')
    expect(stdout.split('\n').filter((line) => line.length > 80)).toEqual([])
  })

  test('with --json: one object, and the same file', async () => {
    const { code, stdout } = await prompt.run(['--json'])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({
      written: join(prompt.folder, 'fillrate.config.ts'),
      examined: { tables: 2, schemas: ['crm'] },
      sources: [
        { name: 'contacts', kind: 'person', fill_rate: { eligible: 40 } },
        { name: 'accounts', kind: 'company', fill_rate: { eligible: 20 } },
      ],
      skipped_tables: [],
    })
    expect(await prompt.read('fillrate.config.ts')).toContain('contacts: {')
  })

  test('as JSON, with the URL of its schema', async () => {
    expect(await prompt.run(['--out', 'fillrate.config.json'])).toMatchObject({ code: 0 })
    expect(JSON.parse(await prompt.read('fillrate.config.json'))).toMatchObject({
      $schema: './node_modules/fillrate/fillrate.schema.json',
      sources: {
        contacts: {
          kind: 'person',
          reviewed: false,
          inputs: { email: 't.email', company: 'a.name' },
          outputs: { title: 'title', phone: 'phone' },
        },
        accounts: { kind: 'company', inputs: { domain: 't.website' }, outputs: { industry: 'industry' } },
      },
      budget: 100,
    })
  })

  test('only the named tables', async () => {
    expect(await prompt.run(['accounts'])).toMatchObject({ code: 0 })
    const text = await prompt.read('fillrate.config.ts')
    expect(text).toContain('accounts: {')
    expect(text).not.toContain('contacts: {')
  })
})

describe('on a terminal', () => {
  test('prompts for tables, then for each source', async () => {
    const { code, stdout } = await prompt.run([], '1,2\nn\ny\n')
    expect(code).toBe(0)
    expect(stdout).toMatch(
      /1 +crm\.contacts .* people[\s\S]*2 +crm\.accounts .* companies[\s\S]*Which sources\?/,
    )
    expect(stdout).toMatch(/Add contacts\? \[Y\/n\] [\s\S]*Add accounts\? \[Y\/n\] /)
    const text = await prompt.read('fillrate.config.ts')
    expect(text).toContain('accounts: {')
    expect(text).not.toMatch(/contacts: \{|reviewed/)
  })

  test.each([
    ['none\n', 0],
    ['1\nn\n', 0],
    // The input ends.
    ['', 130],
    ['1\n', 130],
  ])('writes nothing after %j', async (answers, code) => {
    const ended = await prompt.run([], answers)
    expect(ended).toMatchObject({
      code,
      stdout: expect.stringContaining('Nothing was written.') as string,
    })
    expect(await readdir(prompt.folder)).toEqual([])
  })
})

describe('what is not known', () => {
  let unsure: TestDatabase
  let ours: Prompt
  beforeAll(async () => {
    unsure = await createTestDatabase()
    await unsure.query(`
      create table contacts (id int primary key, email text, title text, phase text, pinball boolean, shape text);
      insert into contacts select n, 'c' || n || '@c.example', null, null, n % 5 = 0, case when n % 5 < 2 then 'round' end
        from generate_series(1, 40) n;
      alter table contacts rename phase to lifecycle_stage;
      update contacts set lifecycle_stage = case when id % 4 = 0 then 'former' else 'customer' end`)
  })
  afterAll(() => unsure.drop())
  beforeEach(async () => {
    ours = await createPrompt(unsure.url)
  })
  afterEach(() => ours.remove())

  test('stands in the file with the safe answer where there is no terminal', async () => {
    expect(await ours.run(['--yes'])).toMatchObject({ code: 0 })
    const text = (await ours.read('fillrate.config.ts')).replaceAll(/\n +\/\/ ?/g, ' ')
    expect(text).toContain('where: "t.lifecycle_stage is distinct from \'former\' and t.pinball is not true"')
    expect(text).toMatch(
      /What divides the rows.+ 10 +left out: lifecycle_stage is former +8 +left out: pinball is set/,
    )
    expect(text).toMatch(/ 16 +read: shape is round +and t\.shape/)
  })

  test('is prompted for on a terminal, and the answers decide', async () => {
    const { code, stdout } = await ours.run([], 'y\n2,3\n')
    expect(code).toBe(0)
    expect(stdout).toMatch(
      /1 ✗ +10 +lifecycle_stage is former\n +2 ✗ +8 +pinball is set\n +3 +16 +shape is round/,
    )
    expect(stdout).toContain('Leave out which of these rows of contacts? Numbers, all, or none [1,2] ')
    const text = await ours.read('fillrate.config.ts')
    expect(text).toContain(`where: "t.pinball is not true and t.shape is distinct from 'round'"`)
    expect(text).not.toContain('Not decided')
  })

  test('--explain says of each column what it was taken for, and writes nothing', async () => {
    const { code, stdout } = await ours.run(['--explain', 'contacts'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/contacts +people \(contacts\), 40 rows sampled/)
    expect(stdout).toMatch(/email +text +read as email/)
    expect(stdout).toMatch(/title +text +read as title; filled with title/)
    expect(stdout).toMatch(/pinball +boolean +a question: does it leave rows out\?/)
    expect(await readdir(ours.folder)).toEqual([])
    expect(await ours.run(['--explain'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('the tables to explain, such as crm.contacts') as string,
    })
  })
})

describe('a table that may be meant', () => {
  let staffed: TestDatabase
  let ours: Prompt
  beforeAll(async () => {
    staffed = await createTestDatabase()
    await staffed.query(`
      create table contacts (id int primary key, email text, title text);
      create table users (id int primary key, email text, name text, title text, company_name text);
      insert into contacts select n, 'c' || n || '@c.example', null from generate_series(1, 20) n;
      insert into users select n, 'u' || n || '@u.example', 'U', null, 'C' from generate_series(1, 20) n`)
  })
  afterAll(() => staffed.drop())
  beforeEach(async () => {
    ours = await createPrompt(staffed.url)
  })
  afterEach(() => ours.remove())

  test('is a source if a person names it, and else a line of the file', async () => {
    const { code, stdout } = await ours.run([], '1-2\ny\ny\n')
    expect(code).toBe(0)
    expect(stdout).toMatch(/left unless you name their numbers\n +2 users: its rows are your own staff/)
    expect(stdout).toContain('Which sources? Numbers such as 1,2, or none [1] ')
    const text = await ours.read('fillrate.config.ts')
    expect(text).toMatch(/contacts: \{[\s\S]*users: \{/)
    expect(text).not.toMatch(/reviewed|are left/)

    expect(await ours.run(['--force'], '\ny\n')).toMatchObject({ code: 0 })
    const other = await ours.read('fillrate.config.ts')
    expect(other).not.toContain('users: {')
    expect(other).toMatch(/are left for the reason beside them[\s\S]*users: its rows are your own staff/)
  })

  test('is skipped without a terminal, with the reason', async () => {
    const { stdout } = await ours.run(['--json'])
    expect(JSON.parse(stdout)).toMatchObject({
      sources: [{ name: 'contacts' }],
      skipped_tables: [{ table: 'users', reason: expect.stringContaining('your own staff') as string }],
    })
    expect(await ours.run(['--explain', 'users'])).toMatchObject({
      stdout: expect.stringMatching(/users +people \(users\)/) as string,
    })
  })
})

describe('an existing file', () => {
  test('is never overwritten, and the error comes first', async () => {
    await writeFile(join(prompt.folder, 'fillrate.config.ts'), 'mine')
    const { code, stdout, stderr } = await prompt.run(['--yes'])
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/fillrate\.config\.ts\n +found +the file exists[\s\S]*--out FILE[\s\S]*--force/)
    expect(await prompt.read('fillrate.config.ts')).toBe('mine')
  })

  test('is overwritten with --force', async () => {
    await writeFile(join(prompt.folder, 'fillrate.config.ts'), 'mine')
    expect(await prompt.run(['--yes', '--force'])).toMatchObject({ code: 0 })
    expect(await prompt.read('fillrate.config.ts')).toContain('defineConfig')
  })

  test('is left alone with --out', async () => {
    await writeFile(join(prompt.folder, 'fillrate.config.ts'), 'mine')
    const { code, stdout } = await prompt.run(['--yes', '--out', 'other.config.ts'])
    expect(code).toBe(0)
    expect(stdout).toContain('fillrate check --config other.config.ts')
    expect(await prompt.read('fillrate.config.ts')).toBe('mine')
  })

  test.each([[['--yes']], [['--yes', '--force']]])(
    'with another extension would take precedence: %j',
    async (words) => {
      await writeFile(join(prompt.folder, 'fillrate.config.json'), '{}')
      const { code, stderr } = await prompt.run(words)
      expect(code).toBe(2)
      expect(stderr).toContain('fillrate.config.json is in the same folder')
      expect(await readdir(prompt.folder)).toEqual(['fillrate.config.json'])
    },
  )
})

describe('errors', () => {
  test.each<[string, string[], string]>([
    ['a missing table', ['crm.contcts'], "Did you mean 'crm.contacts'?"],
    ['an unsupported extension', ['--out', 'fillrate.yaml'], 'a name that ends in .ts'],
    ['a missing folder', ['--yes', '--out', 'nowhere/a.ts'], 'Choose another file with --out'],
  ])('%s', async (_, words, todo) => {
    const { code, stderr } = await prompt.run(words)
    expect(code).toBe(2)
    expect(stderr).toContain(todo)
    expect(await readdir(prompt.folder)).toEqual([])
  })

  test('an empty proposal gives the reason', async () => {
    const alone = await createPrompt(empty.url)
    try {
      expect(await alone.run(['--yes'])).toMatchObject({
        code: 1,
        stdout: expect.stringContaining('This database has no table that this role may read.') as string,
      })
      await empty.pool.query(`
        create table invoices (id int primary key, total numeric);
        create table contacts (id int primary key, first_name text, last_name text, title text)`)
      const { code, stdout } = await alone.run(['--yes'])
      expect(code).toBe(1)
      expect(stdout).toMatch(
        /Nothing to propose: of 2 tables and views of public[\s\S]*contacts: nothing identifies its rows[\s\S]*fillrate init SCHEMA\.TABLE/,
      )
      expect(JSON.parse((await alone.run(['--json'])).stdout)).toMatchObject({ written: null, sources: [] })
      expect(await readdir(alone.folder)).toEqual([])
    } finally {
      await alone.remove()
    }
  })
})
