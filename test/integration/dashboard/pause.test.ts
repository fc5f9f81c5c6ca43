import { afterAll, beforeAll, expect, test } from 'vitest'
import { createCommandLine, type CommandLine } from '../../support/cli.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { runRequest, useHarness, stateSum } from '../../support/harness.ts'
import { runProgram } from '../../support/program.ts'

let cli: CommandLine
const harness = useHarness({ config: withAccounts, prepare: ({ pool }) => createCrm(pool, 30, 5) })
beforeAll(async () => {
  cli = await createCommandLine(harness.database.url, harness.sandbox, withAccounts)
})
afterAll(() => cli.remove())

const command = (...words: string[]): ReturnType<typeof runProgram> =>
  runProgram({ cwd: cli.folder, env: cli.environment }, ...words)

test('a paused source is left out by every run, which says so, until it is resumed', async () => {
  const why = ['--because', 'an import', '--json']
  expect(await command('pause', 'contacts', ...why)).toMatchObject({ code: 0 })
  const status = JSON.parse((await command('status', '--json')).stdout) as { paused: object[] }
  expect(status.paused).toMatchObject([
    { source: 'contacts', paused_by: expect.stringContaining('@'), reason: 'an import' },
  ])

  const plan = await command('plan')
  expect(plan.stdout).toMatch(/^contacts {2}is paused/)
  expect(plan.stdout).toContain('accounts')
  const first = await harness.run()
  expect(first).toMatchObject({ status: 'completed', rows: { picked: 5 } })
  expect(first.reason).toContain('contacts is paused and not picked')
  const named = await harness.run({ sources: ['contacts'] })
  expect(named).toMatchObject({ status: 'completed', rows: { picked: 0 }, requests: { person: 0 } })

  expect((await command('resume', 'contacts')).stdout).toBe('contacts resumed.\n')
  const after = await harness.run()
  expect(after).toMatchObject({ reason: null, rows: { picked: 30, waiting: 0 } })
  expect(stateSum(after)).toBe(30)
})

test('a source that is paused while it is picked is picked no further, and nothing of it is lost', async () => {
  await harness.query(
    `insert into crm.contacts (email) select 'late' || n || '@example.com' from generate_series(1, 2500) n`,
  )
  const app = await harness.open()
  let paused: Promise<unknown> | null = null
  const request = runRequest({ sources: ['contacts'], route: 'bulk' })
  const report = await app.run({
    ...request,
    // At the first sign of a pick.
    onProgress: ({ picked }) => {
      if (picked > 0)
        paused ??= harness.database.pool.query(
          `insert into fillrate.source_state (source, paused_at, paused_by) values ('contacts', now(), 'a test')
           on conflict (source) do update set paused_at = now(), paused_by = 'a test'`,
        )
    },
  })
  await paused
  expect(report.rows.waiting).toBe(0)
  expect(stateSum(report)).toBe(report.rows.picked)
  expect((await command('resume', 'contacts')).stdout).toBe('contacts resumed.\n')
  const rest = await app.run(request)
  // Those that the first run had not picked any more, and no other.
  expect(report.rows.picked + rest.rows.picked).toBe(2_500)
})

test('only sources of the configuration can be paused', async () => {
  const ended = await command('pause', 'contcts')
  expect(ended.code).toBe(2)
  expect(ended.stderr).toContain('one of: contacts, accounts')
  expect((await command('resume', 'accounts')).stdout).toBe('accounts was not paused.\n')
})

test('runs keep how full their sources were at the end of each', async () => {
  const readCounts = () =>
    harness.query<{ filled: Record<string, number> }>(
      `select totals #> '{fill_rates,contacts,filled}' as filled from fillrate.runs
        where totals -> 'fill_rates' ? 'contacts' order by id`,
    )
  // A run on a busy machine may leave its count out.
  while ((await readCounts()).length < 2) await harness.run()
  const filled = (await readCounts()).map((row) => row.filled['phone'] ?? -1)
  expect(filled.at(-1)).toBeGreaterThanOrEqual(filled[0] ?? 0)
  expect(filled.at(-1)).toBeLessThanOrEqual(await harness.count('crm.contacts where phone is not null'))
})
