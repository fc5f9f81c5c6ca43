import { expect, test } from 'vitest'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runProgram } from '../../support/program.ts'
import { openCommandLine } from './command-line.ts'

// `writes` of a source, on the command line.

const { contacts } = crmConfig.sources
const slowed = { ...crmConfig, budget: 100, sources: { contacts: { ...contacts, writes: { perHour: 600 } } } }
const { database, here, cli, sandbox } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 40),
  service: { missingShare: 0, notFoundShare: 0 },
  config: slowed,
})
const filled = () => database.count('crm.contacts where phone is not null')

test('two runs together write as many rows as allowed and say what they wait for; nothing is lost when they are stopped', async () => {
  const stop = new AbortController()
  const program = { cwd: cli.folder, env: cli.environment, signal: stop.signal }
  const words = ['run', '--route', 'sync', '--limit', '20', '--json']
  const runs = [runProgram(program, ...words), runProgram(program, ...words)]
  await expect.poll(filled).toBeGreaterThanOrEqual(10)
  // Both have made their calls.
  await expect.poll(() => sandbox.stats().calls.accepted).toBe(36)
  const readSlowed = async () => JSON.parse((await here(['status', '--json'])).stdout).slowed_writes
  await expect.poll(readSlowed).toEqual([{ source: 'contacts', per_hour: 600 }])
  expect((await here(['status'])).stdout).toContain('answered rows wait to be written, 600 an hour')
  stop.abort()
  const ended = await Promise.all(runs)
  expect(ended.map(({ code }) => code)).toEqual([130, 130])
  const enriched = ended.map(({ stdout }) => JSON.parse(stdout).rows.enriched)
  expect(await database.count("fillrate.rows where state = 'waiting'")).toBeGreaterThan(0)
  expect(await filled()).toBe(enriched[0] + enriched[1])
  // An hour allows ten at once and 590 after them: in a minute twenty at most.
  expect(await filled()).toBeLessThanOrEqual(20)

  const calls = sandbox.stats().calls.accepted
  await cli.configure({ ...crmConfig, budget: 100, sources: { contacts } })
  expect((await here(['run', '--route', 'sync'])).code).toBe(0)
  expect(await filled()).toBeGreaterThan(30)
  expect(sandbox.stats().calls.accepted).toBe(calls)
})

test('remap is slowed down too, and ends when everything is written', async () => {
  await database.pool.query('update crm.contacts set phone = null')
  await cli.configure(slowed)
  await database.pool.query(
    'update fillrate.source_state set allowance = 0, allowed_at = now(), slowed_at = null',
  )
  const before = await database.count('fillrate.source_state where slowed_at is not null')
  const remap = here(['remap', 'contacts', '--json'])
  const readSlowed = () => database.count('fillrate.source_state where slowed_at is not null')
  await expect.poll(readSlowed).toBe(before + 1)
  expect(await filled()).toBe(0)
  const passTime = setInterval(() => {
    void database.pool.query("update fillrate.source_state set allowed_at = allowed_at - interval '1 hour'")
  }, 200)
  const { code } = await remap.finally(() => clearInterval(passTime))
  expect(code).toBe(0)
  expect(await filled()).toBeGreaterThan(30)
})

test('a limit that is too low is refused with its reason', async () => {
  await cli.configure({ ...slowed, sources: { contacts: { ...contacts, writes: { perHour: 5 } } } })
  const { code, stderr } = await here(['plan'])
  expect(code).toBe(2)
  expect(stderr).toContain('sources.contacts.writes.perHour')
})
