import { afterAll, describe, expect, test } from 'vitest'
import type { SchemaExpectation } from '../../support/init-score/expectation.ts'
import { expectedMappings, proposeMappings } from '../../support/init-score/propose.ts'
import { readExpectedRows } from '../../support/init-score/rows.ts'
import { runUnread } from '../../support/init-score/run-unread.ts'
import { createSchema, readExpectation, schemaNames } from '../../support/init-score/schemas.ts'
import {
  SCORED_KINDS,
  isUpdating,
  readScores,
  toFigures,
  writeScores,
  type Measured,
} from '../../support/init-score/scores.ts'
import { scoreProposal } from '../../support/init-score/score.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

// With UPDATE_SCORES=1 the measured scores become the floors, and the table of docs/init.md (npm run docs).

const measured = new Map<string, Measured>()

async function withSchema(
  name: string,
  act: (database: TestDatabase, expectation: SchemaExpectation) => Promise<void>,
): Promise<void> {
  const database = await createTestDatabase()
  try {
    await createSchema(database.pool, name)
    await act(database, await readExpectation(name))
  } finally {
    await database.drop()
  }
}

const measure = (name: string, found: Partial<Measured>): void => {
  measured.set(name, { score: null, cells: null, ...measured.get(name), ...found })
}

afterAll(() => {
  if (isUpdating) writeScores(measured)
})

describe.each(schemaNames())('%s', (name) => {
  test('each condition of rows to leave out concerns rows that no other condition concerns', () =>
    withSchema(name, async ({ pool }, { sources }) => {
      for (const source of sources) {
        const rows = [...(await readExpectedRows(pool, source)).values()]
        const shared = Object.keys(source.excluded).filter(
          (reason) => !rows.some(({ excludedBy }) => excludedBy.length === 1 && excludedBy[0] === reason),
        )
        expect({ table: source.table, shared }).toEqual({ table: source.table, shared: [] })
        expect(rows.filter(({ excludedBy }) => excludedBy.length === 0).length).toBeGreaterThan(30)
      }
    }))

  test('the expected mapping itself has the full score, and nothing wrong', () =>
    withSchema(name, async ({ pool }, expectation) => {
      const score = await scoreProposal(pool, expectation, expectedMappings(expectation))
      expect(SCORED_KINDS.flatMap((kind) => [...score[kind].missed, ...score[kind].wrong])).toEqual([])
    }))

  test('init finds what it found before, and no more that is wrong', () =>
    withSchema(name, async (database, expectation) => {
      const score = await scoreProposal(database.pool, expectation, await proposeMappings(database))
      measure(name, { score })
      const floor = readScores()[name]?.now
      if (isUpdating || floor === undefined) return
      const now = toFigures(score)
      const worse = SCORED_KINDS.flatMap((kind) => [
        ...(now[kind].found < floor[kind].found
          ? [{ kind, floor: floor[kind], missed: score[kind].missed }]
          : []),
        ...(now[kind].wrong > floor[kind].wrong
          ? [{ kind, floor: floor[kind], wrong: score[kind].wrong }]
          : []),
      ])
      expect(worse).toEqual([])
    }))

  test('the file of init, unread, passes check; what it writes is written once, and undone to the byte', () =>
    withSchema(name, async (database, expectation) => {
      const { check, status, written, wrong, again, ...changed } = await runUnread(database, expectation)
      measure(name, { cells: { written, wrong } })
      expect(changed).toEqual({ changedByDryRun: [], changedAfterUndo: [] })
      if (check === null) return
      expect(check).toMatchObject({ code: 0 })
      expect(status).toBe('completed')
      const nothing = { requested: 0, written: 0 }
      expect({ second: again[0], afterUndo: again[1] }).toEqual({ second: nothing, afterUndo: nothing })
      const floor = isUpdating ? Infinity : (readScores()[name]?.now.cells.wrong ?? Infinity)
      expect(wrong.length > floor ? wrong : []).toEqual([])
    }))
})
