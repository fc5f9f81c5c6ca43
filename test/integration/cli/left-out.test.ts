import { expect, test } from 'vitest'
import type { Plan } from '../../../src/domain/report/plan.ts'
import type { RunReport } from '../../../src/domain/report/run.ts'
import type { UndoReport } from '../../../src/actions/undo/undo.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { openCommandLine } from './command-line.ts'

// Each command with one of two sources broken: what it says of it, and what it does with the other.

const { database, here, json, say } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 10, 5),
  service: { missingShare: 0, notFoundShare: 0 },
  config: withAccounts,
})
await here(['run', '--route', 'sync'])
await database.query(`alter table crm.contacts rename column seniority to seniority_level;
  insert into crm.accounts (website) values ('https://later.example')`)

const LEFT_OUT = /contacts is left out: .*seniority.*seniority_level/
test('plan says what a run would leave out, and plans the rest', async () => {
  const said = await say('plan', 0)
  expect(said).toMatch(LEFT_OUT)
  expect(said).toContain('accounts eligible 6 rows')
  const { left_out, sources } = await json<Plan>('plan contacts accounts', 0)
  expect(left_out).toMatchObject([{ source: 'contacts' }])
  expect(sources).toMatchObject([{ source: 'accounts', picked: 1 }])
})

test('a run enriches the others and ends with 3, and status keeps saying why until the mend', async () => {
  expect(await say('run --route sync', 3)).toMatch(LEFT_OUT)
  expect(await database.count('crm.accounts where industry is not null')).toBe(6)
  const said = await say('status', 0)
  expect(said).toMatch(LEFT_OUT)
  expect(said).toMatch(/ contacts left out /)
})

test('a source that is paused as well is left out by will: the run ends with 0 and says that it is paused', async () => {
  await say('pause contacts --because migration', 0)
  const { left_out: leftOut, paused } = await json<Plan>('plan', 0)
  expect({ leftOut, paused }).toEqual({ leftOut: [], paused: ['contacts'] })
  const report = await json<RunReport>('run --route sync', 0)
  expect(report.left_out).toBeUndefined()
  expect(report.reason).toContain('contacts is paused')
  // What is wrong with it is shown until it is mended.
  expect(await say('status', 0)).toMatch(LEFT_OUT)
  await say('resume contacts', 0)
  expect((await json<RunReport>('run --route sync', 3)).left_out).toMatchObject([{ source: 'contacts' }])
})

test('a command about the broken source alone is refused with what to do', async () => {
  for (const line of ['run contacts', 'retry contacts', 'explain contacts 1', 'follow install contacts'])
    expect(await say(line, 2)).toMatch(/seniority_level/)
  expect(await say('source rename contacts people', 2)).toMatch(/the configuration still has/)
})

test('undo restores the others, and the rest after the mend', async () => {
  expect(await say('undo 1 --dry-run', 3)).toMatch(LEFT_OUT)
  const first = await json<UndoReport>('undo 1 --yes', 3)
  expect(first.changes).toMatchObject({ total: 15, restored: 5, not_configured: 0, remaining: 10 })
  expect(first.left_out).toMatchObject([{ source: 'contacts' }])
  await database.query('alter table crm.contacts rename column seniority_level to seniority')
  const second = await json<UndoReport>('undo 1 --yes', 0)
  expect(second.changes).toMatchObject({ restored: 10, undone_before: 5, remaining: 0 })
  expect(second.left_out).toEqual([])
  await say('run --route sync', 0)
  expect(await database.count('fillrate.conditions where ended_at is null')).toBe(0)
})

test('where no source fits, a command is refused', async () => {
  await database.query('alter table crm.contacts rename to people; drop table crm.accounts')
  const said = await say('run', 2)
  expect(said).toContain('crm.contacts')
  expect(said).toContain('crm.accounts')
})
