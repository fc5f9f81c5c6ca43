import { afterAll, describe, expect, test } from 'vitest'
import { proposeMappings } from '../../support/init-score/propose.ts'
import { readExpectedRows } from '../../support/init-score/rows.ts'
import { createSchema, readExpectation, schemaNames } from '../../support/init-score/schemas.ts'
import { readScores, toFigures, writeScores } from '../../support/init-score/scores.ts'
import { scoreProposal, type InitScore } from '../../support/init-score/score.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

// Measured scores are written to test/fixtures/schemas/scores.json with UPDATE_SCORES=1, for the table in docs/init.md.

const measured = new Map<string, InitScore>()

async function withSchema(name: string, act: (database: TestDatabase) => Promise<void>): Promise<void> {
  const database = await createTestDatabase()
  try {
    await createSchema(database.pool, name)
    await act(database)
  } finally {
    await database.drop()
  }
}

afterAll(() => {
  if (process.env['UPDATE_SCORES'] !== undefined) writeScores(measured)
})

describe.each(schemaNames())('%s', (name) => {
  test('each condition of rows to leave out concerns rows that no other condition concerns', async () => {
    const { sources } = await readExpectation(name)
    await withSchema(name, async ({ pool }) => {
      for (const source of sources) {
        const rows = [...(await readExpectedRows(pool, source)).values()]
        const alone = Object.keys(source.excluded).filter(
          (reason) => !rows.some(({ excludedBy }) => excludedBy.length === 1 && excludedBy[0] === reason),
        )
        expect({ table: source.table, alone }).toEqual({ table: source.table, alone: [] })
        expect(rows.filter(({ excludedBy }) => excludedBy.length === 0).length).toBeGreaterThan(30)
      }
    })
  })

  test('init finds at least what it found before, and nothing wrong', async () => {
    await withSchema(name, async (database) => {
      const score = await scoreProposal(
        database.pool,
        await readExpectation(name),
        await proposeMappings(database),
      )
      measured.set(name, score)
      const floor = readScores()[name]?.now
      if (process.env['UPDATE_SCORES'] !== undefined || floor === undefined) return
      const now = toFigures(score)
      const worse = (['inputs', 'outputs', 'filters'] as const).flatMap((kind) => [
        ...(now[kind].found < floor[kind].found
          ? [{ kind, floor: floor[kind], missed: score[kind].missed }]
          : []),
        ...(now[kind].wrong > floor[kind].wrong
          ? [{ kind, floor: floor[kind], wrong: score[kind].wrong }]
          : []),
      ])
      expect(worse).toEqual([])
    })
  })
})
