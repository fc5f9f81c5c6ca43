import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../database.ts'
import type { SchemaExpectation } from './expectation.ts'
import { expectedMappings, proposeMappings } from './propose.ts'
import { readExpectedRows } from './rows.ts'
import { runUnread } from './run-unread.ts'
import { createSchema, readExpectation, schemaNames } from './schemas.ts'
import { SCORED_KINDS, isUpdating, readScores, toFigures, writeScores, type Measured } from './scores.ts'
import { scoreProposal } from './score.ts'

/** Whether every schema is tested, as by `npm run test:schemas`, and not only one of each part. */
const testsAll = process.env['SCHEMAS'] === 'all' || isUpdating

/** Every `of`th schema of test/fixtures/schemas, each in a database of its own. */
export function testSchemas(part: number, of: number): void {
  const names = schemaNames().filter((_, n) => n % of === part)
  describe.each(testsAll ? names : names.slice(0, 1))('%s', (name) => {
    testSchema(name)
  })
}

function testSchema(name: string): void {
  const measured: Measured = { score: null, cells: null }
  let database: TestDatabase
  let expectation: SchemaExpectation

  beforeAll(async () => {
    database = await createTestDatabase()
    await createSchema(database.pool, name)
    expectation = await readExpectation(name)
  })
  afterAll(async () => {
    await database.drop()
    if (isUpdating) writeScores(new Map([[name, measured]]))
  })

  test('each condition of rows to leave out concerns rows that no other condition concerns', async () => {
    for (const source of expectation.sources) {
      const rows = [...(await readExpectedRows(database.pool, source)).values()]
      const shared = Object.keys(source.excluded).filter(
        (reason) => !rows.some(({ excludedBy }) => excludedBy.length === 1 && excludedBy[0] === reason),
      )
      expect({ table: source.table, shared }).toEqual({ table: source.table, shared: [] })
      const belonging = rows.filter(({ excludedBy }) => excludedBy.length === 0)
      expect(belonging.length).toBeGreaterThan(source.isOptional === true ? 10 : 30)
    }
  })

  test('the expected mapping itself has the full score, and nothing wrong', async () => {
    const score = await scoreProposal(database.pool, expectation, expectedMappings(expectation))
    expect(SCORED_KINDS.flatMap((kind) => [...score[kind].missed, ...score[kind].wrong])).toEqual([])
  })

  test('init finds what it found before, and no more that is wrong', async () => {
    const score = await scoreProposal(database.pool, expectation, await proposeMappings(database))
    measured.score = score
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
    expect(now.harmed.rows).toBeLessThanOrEqual(floor.harmed.rows)
    expect(now.overlooked.rows).toBeLessThanOrEqual(floor.overlooked?.rows ?? Infinity)
    expect(now.waiting.rows).toBeLessThanOrEqual(floor.waiting.rows)
  })

  test('the file of init passes check, and looks nothing up unread; what it writes once confirmed is undone to the byte', async () => {
    const { unread, check, status, written, wrong, again, ...changed } = await runUnread(
      database,
      expectation,
    )
    measured.cells = { written, wrong }
    expect(changed).toEqual({ changedByDryRun: [], changedAfterUndo: [] })
    if (check === null) return
    expect(check).toMatchObject({ code: 0 })
    expect(unread).toEqual({ code: 2, calls: 0 })
    expect(status).toBe('completed')
    const nothing = { requested: 0, written: 0 }
    expect({ second: again[0], afterUndo: again[1] }).toEqual({ second: nothing, afterUndo: nothing })
    const floor = isUpdating ? Infinity : (readScores()[name]?.now.cells.wrong ?? 0)
    expect(wrong.length > floor ? wrong : []).toEqual([])
  })
}
