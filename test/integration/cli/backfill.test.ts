import { expect, test } from 'vitest'
import { createCrm } from '../../support/crm.ts'
import { openCommandLine } from './command-line.ts'

// A budget below the backlog is a choice: night after night, and no condition.

const { json, say } = await openCommandLine({ prepare: (pool) => createCrm(pool, 40) })

const run = (code: number) =>
  json<{ status: string; rows: { picked: number } }>('run contacts --route sync --budget 15', code)

test('status shows how far a source has come whose runs stop at their budget, until nothing remains', async () => {
  const first = await run(4)
  expect(first.status).toBe('budget_reached')
  // Beside 15 lookups, rows that need none.
  const { picked } = first.rows
  expect(await json('status', 0)).toMatchObject({
    conditions: [],
    backfills: { contacts: { picked, eligible: 40, per_day: null, done_at: null } },
  })
  // Of a day that is not over nothing is foreseen.
  expect(await say('status', 0)).toMatch(new RegExp(`Backfill +contacts: ${picked} of 40 rows picked`))
  const second = picked + (await run(4)).rows.picked
  expect(await json('status', 0)).toMatchObject({
    backfills: { contacts: { picked: second, per_day: null } },
  })
  await run(0)
  expect(await json('status', 0)).toMatchObject({ backfills: {} })
})
