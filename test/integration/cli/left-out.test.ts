import { expect, test } from 'vitest'
import type { UndoReport } from '../../../src/actions/undo/report.ts'
import type { Plan } from '../../../src/actions/plan/plan.ts'
import type { RunReport } from '../../../src/runs/report.ts'
import type { Ended } from '../../support/cli.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { openCommandLine } from './command-line.ts'

// Each command with one of two sources broken: what it says of it, and what it does with the other.

const { database, here } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 10, 5),
  service: { missingShare: 0, notFoundShare: 0 },
  config: withAccounts,
})
await here(['run', '--route', 'sync'])
await database.query(`alter table crm.contacts rename column seniority to seniority_level;
  insert into crm.accounts (website) values ('https://later.example')`)

const LEFT_OUT = /contacts is left out: .*seniority.*seniority_level/
async function run(line: string, code: number): Promise<Ended> {
  const ended = await here(line.split(' '))
  expect(ended.code, `${line}: ${ended.stdout}${ended.stderr}`).toBe(code)
  return ended
}
/** @returns what was written, as one line */
async function fillrate(line: string, code: number): Promise<string> {
  const { stdout, stderr } = await run(line, code)
  return `${stdout}${stderr}`.replaceAll(/\s+/g, ' ')
}
const jsonOf = async <T>(line: string, code: number): Promise<T> =>
  JSON.parse((await run(`${line} --json`, code)).stdout) as T

test('plan says what a run would leave out, and plans the rest', async () => {
  const said = await fillrate('plan', 0)
  expect(said).toMatch(LEFT_OUT)
  expect(said).toContain('accounts eligible 6 rows')
  const { left_out, sources } = await jsonOf<Plan>('plan contacts accounts', 0)
  expect(left_out).toMatchObject([{ source: 'contacts' }])
  expect(sources).toMatchObject([{ source: 'accounts', picked: 1 }])
})

test('a run enriches the others and ends with 3, and status keeps saying why until the mend', async () => {
  expect(await fillrate('run --route sync', 3)).toMatch(LEFT_OUT)
  expect(await database.count('crm.accounts where industry is not null')).toBe(6)
  const said = await fillrate('status', 0)
  expect(said).toMatch(LEFT_OUT)
  expect(said).toMatch(/ contacts left out /)
})

test('a source that is paused as well is left out by will: the run ends with 0 and says that it is paused', async () => {
  await fillrate('pause contacts --because migration', 0)
  const { left_out: leftOut, paused } = await jsonOf<Plan>('plan', 0)
  expect({ leftOut, paused }).toEqual({ leftOut: [], paused: ['contacts'] })
  const report = await jsonOf<RunReport>('run --route sync', 0)
  expect(report.left_out).toBeUndefined()
  expect(report.reason).toContain('contacts is paused')
  // What is wrong with it is shown until it is mended.
  expect(await fillrate('status', 0)).toMatch(LEFT_OUT)
  await fillrate('resume contacts', 0)
  expect((await jsonOf<RunReport>('run --route sync', 3)).left_out).toMatchObject([{ source: 'contacts' }])
})

test('a command about the broken source alone is refused with what to do', async () => {
  for (const line of ['run contacts', 'retry contacts', 'explain contacts 1', 'follow install contacts'])
    expect(await fillrate(line, 2)).toMatch(/seniority_level/)
  expect(await fillrate('source rename contacts people', 2)).toMatch(/the configuration still has/)
})

test('undo restores the others, and the rest after the mend', async () => {
  expect(await fillrate('undo 1 --dry-run', 3)).toMatch(LEFT_OUT)
  const first = await jsonOf<UndoReport>('undo 1 --yes', 3)
  expect(first.changes).toMatchObject({ total: 15, restored: 5, not_configured: 0, remaining: 10 })
  expect(first.left_out).toMatchObject([{ source: 'contacts' }])
  await database.query('alter table crm.contacts rename column seniority_level to seniority')
  const second = await jsonOf<UndoReport>('undo 1 --yes', 0)
  expect(second.changes).toMatchObject({ restored: 10, undone_before: 5, remaining: 0 })
  expect(second.left_out).toEqual([])
  await fillrate('run --route sync', 0)
  expect(await database.count('fillrate.troubles where ended_at is null')).toBe(0)
})

test('where no source fits, a command is refused', async () => {
  await database.query('alter table crm.contacts rename to people; drop table crm.accounts')
  const said = await fillrate('run', 2)
  expect(said).toContain('crm.contacts')
  expect(said).toContain('crm.accounts')
})
