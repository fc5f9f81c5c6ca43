import { expect, test } from 'vitest'
import { createCrm } from '../../support/crm.ts'
import { openCommandLine } from './command-line.ts'

// `undo` and `forget` act with `--yes` alone.

const { database, cli, here } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 30),
  service: { missingShare: 0, notFoundShare: 0 },
})
await here(['run', '--route', 'sync'])

const filled = () => database.count('crm.contacts where phone is not null')
const runs = () => database.count('fillrate.runs')

test('--yes acts; without it nothing is changed, and --dry-run shows what would be', async () => {
  const before = [await filled(), await runs()]
  expect(before[0]).toBeGreaterThan(20)
  for (const words of [
    ['undo', '1'],
    ['forget', '--email', 'a@b.example'],
    ['forget', '--deleted', 'contacts'],
  ]) {
    const refused = await cli.run(...words)
    expect(refused.code).toBe(2)
    expect(refused.stderr).toContain('expected --yes')
    const json = await cli.run(...words, '--json')
    expect(json.code).toBe(2)
    expect(JSON.parse(json.stdout)).toMatchObject({ error: { kind: 'usage' } })
  }
  const preview = await here(['undo', '1', '--dry-run'])
  expect(preview.code).toBe(0)
  expect(preview.stdout).toMatch(
    /undoing run 1 would have this result\. Nothing was written\.\n\n +\d+ +would be restored/,
  )
  expect([await filled(), await runs()]).toEqual(before)

  const undone = await here(['undo', '1', '--yes'])
  expect(undone).toMatchObject({ code: 0, stdout: expect.stringContaining('Run 2 undid run 1') })
  expect(await filled()).toBe(0)
  expect((await here(['runs'])).stdout).toMatch(/^ +1 +completed, undone /m)
  expect((await here(['undo', '1', '--yes'])).stdout).toContain('Nothing left to undo of run 1.')

  // An undo is undone in the same way, and once more.
  expect(await here(['undo', '2', '--yes'])).toMatchObject({ code: 0 })
  expect(await filled()).toBeGreaterThan(20)
  expect((await here(['runs'])).stdout).toMatch(/^ +1 +completed +[^,]*$/m)
  expect((await here(['undo', '3', '--yes', '--json'])).code).toBe(0)
  expect((await here(['runs'])).stdout).toMatch(/^ +1 +completed, undone /m)
  expect((await here(['undo', '4', '--yes'])).code).toBe(0)
  expect(await filled()).toBeGreaterThan(20)
})

test('forget shows what it would erase, and erases with --yes', async () => {
  const email = await database.scalar<string>(
    `select key from fillrate.lookups where kind = 'email' order by id limit 1`,
  )
  const stored = () => database.count(`fillrate.lookups where key = '${email}'`)
  const preview = await here(['forget', '--email', email, '--dry-run'])
  expect(preview.stdout).toMatch(/Would be erased[\s\S]*Lookups +1/)
  expect(await stored()).toBe(1)
  const erased = await here(['forget', '--email', email, '--yes'])
  expect(erased.stdout).toContain('Erased; further lookups are suppressed')
  expect(await stored()).toBe(0)
})
