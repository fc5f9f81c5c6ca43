import { expect, test } from 'vitest'
import type { Ended } from '../../support/cli.ts'
import { createCrm, crmConfig, withContacts } from '../../support/crm.ts'
import { openCommandLine } from './command-line.ts'

const { database, sandbox, cli, here } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 40),
  service: { missingShare: 0, notFoundShare: 0 },
})
const before = await database.checksum('crm.contacts')

const contacts = (): Promise<string> => database.checksum('crm.contacts')
const calls = (): number => sandbox.stats().calls.accepted

/** As a user types it, in a process of its own. */
const fillrate = async (line: string): Promise<string> =>
  expectExit(line, await cli.run(...line.split(' ')), 0)

/** The same command in this process. */
const inside = async (line: string, code = 0): Promise<string> =>
  expectExit(line, await here(line.split(' ')), code)

function expectExit(line: string, ended: Ended, code: number): string {
  expect(ended.code, `${line}: ${ended.stderr}`).toBe(code)
  return ended.stdout + (code === 2 ? ended.stderr : '')
}

test('a run is undone, redone, and undone again except for values changed since', async () => {
  await inside('run --route sync')
  const after = await contacts()
  expect(after).not.toBe(before)

  const plan = await inside('undo 1 --dry-run')
  expect(plan).toMatch(
    /Dry run: undoing run 1 would have this result\. Nothing was written\.\n\n +40 +would be restored/,
  )
  expect(await contacts()).toBe(after)

  const undone = await fillrate('undo 1 --yes')
  expect(undone).toMatch(/^Run 2 undid run 1 in /)
  expect(await contacts()).toBe(before)

  const again = await fillrate('undo 2 --yes')
  expect(again).toMatch(/^Run 3 undid undo run 2 in /)
  expect(await contacts()).toBe(after)

  await database.query(`update crm.contacts set title = 'Chief' where id = 8`)
  const back = await fillrate('undo 3 --yes')
  expect(back).toMatch(/contacts +8 +title/)
  expect(await database.scalar('select title from crm.contacts where id = 8')).toBe('Chief')
  await database.query('update crm.contacts set title = null where id = 8')
  expect(await contacts()).toBe(before)
})

test('retry --state undone writes undone rows again without a call', async () => {
  const callsBefore = calls()
  expect(await inside('run --route sync')).toContain('Nothing to do')
  expect(await contacts()).toBe(before)
  expect(await inside('retry --state undone --dry-run')).toContain('40 rows would be due')
  expect(await inside('retry --state undone')).toMatch(/40 rows are due[\s\S]*To look up +none/)
  expect(await inside('run --route sync')).toMatch(/36 stored \+ 0 requested/)
  expect(calls()).toBe(callsBefore)
  expect(await database.count('crm.contacts where phone is null')).toBe(0)
})

test('after a change of the outputs, remap previews, writes without a call, and can be undone', async () => {
  await database.query('alter table crm.contacts add department text')
  const { outputs } = crmConfig.sources.contacts
  await cli.configure(withContacts({ outputs: { ...outputs, department: 'department' } }))
  const was = await contacts()
  const callsBefore = calls()

  const plan = await inside('remap contacts --dry-run')
  const [first] = await database.query<{ key: string; department: string }>(
    `select r.key, l.record ->> 'department' as department
         from fillrate.rows r join fillrate.lookups l on l.id = r.lookup_id where l.record::jsonb ? 'department' order by r.key limit 1`,
  )
  expect(plan).toMatch(/Cells that would be written\n +department +\d+\n\nBefore and after, in 20 rows\n/)
  // The rows shown are chosen at random.
  expect(plan).toMatch(/^ +\d+ +contacts.*\n +department +— +\S/m)
  expect(await contacts()).toBe(was)

  const done = await fillrate('remap contacts')
  const run = /^Run (\d+) completed/m.exec(done)?.[1] ?? ''
  expect(await database.scalar(`select department from crm.contacts where id = ${first?.key}`)).toBe(
    first?.department,
  )
  expect(await inside('remap contacts')).toContain('unchanged')
  expect(calls()).toBe(callsBefore)
  await inside(`undo ${run} --yes`)
  expect(await contacts()).toBe(was)
})

test('a mistake is reported in one message, and changes nothing', async () => {
  const was = await contacts()
  expect(await inside('undo 99 --yes', 2)).toMatch(
    /RUN[\s\S]*99, and there is no such run[\s\S]*fillrate runs/,
  )
  expect(await inside('undo last', 2)).toMatch(/'last' is invalid.*Expected the number of a run/)
  expect(await inside('remap accounts', 2)).toMatch(/source accounts[\s\S]*one of: contacts/)
  expect(await inside('retry --state undon', 2)).toMatch(
    /'--state .*' argument 'undon' is invalid. Expected .*undone/,
  )
  expect(await inside('explain contacts 4711', 2)).toMatch(/crm\.contacts has no row with this key \(4711\)/)
  expect(await contacts()).toBe(was)
})
