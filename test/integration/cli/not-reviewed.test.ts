import { expect, test } from 'vitest'
import type { Plan } from '../../../src/domain/report/plan.ts'
import type { RunReport } from '../../../src/domain/report/run.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { openCommandLine } from './command-line.ts'

// What `init` has written without asking, beside a source that a person has read.

const { database, json, sandbox, say } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 10, 5),
  service: { missingShare: 0, notFoundShare: 0 },
  config: {
    ...withAccounts,
    sources: {
      ...withAccounts.sources,
      contacts: { ...withAccounts.sources.contacts, where: 't.id <> 2', reviewed: false },
    },
  },
})

const TODO = /contacts.*take the line `reviewed: false` out/

test('check compares it with the database, and warns', async () => {
  expect(await say('check', 0)).toMatch(TODO)
})

test('plan counts its rows, and says that a run would leave it out', async () => {
  expect(await say('plan', 0)).toMatch(/Not reviewed: contacts\. A run leaves out what no person has read/)
  expect((await json<Plan>('plan contacts', 0)).sources).toMatchObject([{ source: 'contacts', picked: 9 }])
})

test('a run, a dry run and live sync look up the other source alone, and say so', async () => {
  const dry = await json<RunReport>('run --route sync --dry-run', 3)
  expect(dry).toMatchObject({ left_out: [{ source: 'contacts' }], rows: { picked: 5 } })
  expect(await say('run --route sync', 3)).toMatch(TODO)
  expect(sandbox.stats().inputs.requested_singly).toBe(5)
  expect(await database.count(`fillrate.rows where source = 'contacts'`)).toBe(0)
  expect(await database.count('crm.accounts where industry is not null')).toBe(5)
  expect(await say('follow install contacts', 2)).toMatch(TODO)
})

test('named alone, it is refused, with nothing looked up', async () => {
  const before = sandbox.stats().inputs.requested_singly
  for (const line of ['run contacts', 'run contacts --dry-run', 'retry contacts', 'remap contacts'])
    expect(await say(line, 2)).toMatch(TODO)
  expect(sandbox.stats().inputs.requested_singly).toBe(before)
})

test('a person in it can be forgotten, and a row explained', async () => {
  const [row] = await database.query<{ email: string; id: number }>(
    'select id, email from crm.contacts limit 1',
  )
  expect(await say(`forget --email ${row?.email} --yes`, 0)).not.toMatch(TODO)
  expect(await say(`explain contacts ${row?.id}`, 0)).not.toMatch(TODO)
  const excluded = await say('explain contacts 2', 0)
  expect(excluded).toMatch(/excluded from the source by t.id <> 2.*Lookup none while it is excluded/)
})
