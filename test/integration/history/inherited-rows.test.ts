import { afterAll, beforeAll, expect, test } from 'vitest'
import { startSandbox, type Sandbox } from '../../../src/sandbox/server.ts'
import { createCommandLine, type CommandLine } from '../../support/cli.ts'
import { crmConfig } from '../../support/crm.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { runProgram } from '../../support/program.ts'

let database: TestDatabase
let sandbox: Sandbox
let cli: CommandLine
beforeAll(async () => {
  database = await createTestDatabase()
  await database.query(`
    create schema crm;
    create table crm.people (id int primary key, email text, title text, is_archived boolean default false);
    create table crm.archive (primary key (id)) inherits (crm.people);
    insert into crm.people (id, email) values (1, 'ada@example.com'), (2, 'bob@example.com');
    insert into crm.archive values (1, 'old@example.com', 'typed', true)`)
  sandbox = await startSandbox({ missingShare: 0, notFoundShare: 0 })
  const { contacts } = crmConfig.sources
  const outputs = { title: { field: 'title', policy: 'always' } }
  cli = await createCommandLine(database.url, sandbox, {
    sources: {
      people: { ...contacts, table: 'crm.people', where: 'not t.is_archived', outputs, touch: {} },
    },
    budget: 'unlimited',
  })
})
afterAll(async () => {
  await cli.remove()
  await sandbox.close()
  await database.drop()
})

const fillrate = (line: string) =>
  runProgram(
    {
      cwd: cli.folder,
      env: {
        DATABASE_URL: database.url,
        FILLRATE_BASE_URL: sandbox.url,
        FILLRATE_API_KEY: sandbox.keys.join(','),
      },
    },
    ...line.split(' '),
  )
const rows = () =>
  database.query(`select tableoid::regclass::text as of, id, title from crm.people order by 1, 2`)

test('a row of a table that inherits from the source and repeats its key is neither written nor restored', async () => {
  const archived = { of: 'crm.archive', id: 1, title: 'typed' }
  expect(await fillrate('run --route sync')).toMatchObject({ code: 0 })
  expect(await rows()).toEqual([
    archived,
    { of: 'crm.people', id: 1, title: expect.any(String) },
    { of: 'crm.people', id: 2, title: expect.any(String) },
  ])
  expect(await fillrate('undo 1 --yes')).toMatchObject({ code: 0 })
  expect(await rows()).toEqual([
    archived,
    { of: 'crm.people', id: 1, title: null },
    { of: 'crm.people', id: 2, title: null },
  ])
})
