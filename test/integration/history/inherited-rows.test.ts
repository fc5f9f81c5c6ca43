import { expect, test } from 'vitest'
import { crmConfig } from '../../support/crm.ts'
import { openCommandLine } from '../cli/command-line.ts'

const { contacts } = crmConfig.sources
const outputs = { title: { field: 'title', policy: 'always' } }
const { database, here } = await openCommandLine({
  prepare: (pool) =>
    pool.query(`
      create schema crm;
      create table crm.people (id int primary key, email text, title text, is_archived boolean default false);
      create table crm.archive (primary key (id)) inherits (crm.people);
      insert into crm.people (id, email) values (1, 'ada@example.com'), (2, 'bob@example.com');
      insert into crm.archive values (1, 'old@example.com', 'typed', true)`),
  service: { missingShare: 0, notFoundShare: 0 },
  config: {
    sources: {
      people: { ...contacts, table: 'crm.people', where: 'not t.is_archived', outputs, touch: {} },
    },
    budget: 'unlimited',
  },
})
const fillrate = (line: string) => here(line.split(' '))
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
