import { expect, test } from 'vitest'
import { createCrm } from '../../support/crm.ts'
import { openCommandLine } from './command-line.ts'

// A budget below the backlog is a choice: night after night, and no trouble.

const { here } = await openCommandLine({ prepare: (pool) => createCrm(pool, 40) })

const readJson = async (...args: string[]) => JSON.parse((await here([...args, '--json'])).stdout)
const run = async (): Promise<{ status: string; rows: { picked: number } }> =>
  readJson('run', 'contacts', '--route', 'sync', '--budget', '15')

test('status shows how far a source has come whose runs stop at their budget, until nothing remains', async () => {
  const first = await run()
  expect(first.status).toBe('budget_reached')
  // Beside 15 lookups, rows that need none.
  const { picked } = first.rows
  expect(await readJson('status')).toMatchObject({
    troubles: [],
    backfills: { contacts: { picked, eligible: 40, per_day: picked, done_at: expect.any(String) } },
  })
  expect((await here(['status'])).stdout).toMatch(
    new RegExp(`Backfill +contacts: ${picked} of 40 rows picked, done by \\d{4}-\\d\\d-\\d\\d at this pace`),
  )
  const second = picked + (await run()).rows.picked
  expect(await readJson('status')).toMatchObject({
    backfills: { contacts: { picked: second, per_day: second } },
  })
  await run()
  expect(await readJson('status')).toMatchObject({ backfills: {} })
})
