import { expect, test } from 'vitest'
import { ChangeQueue } from '../../../src/daemon/live-sync.ts'
import { listQueuedChanges } from '../../../src/store/changed-rows.ts'
import { useTestDatabase } from '../../support/database.ts'

const database = useTestDatabase()

test('an import is read on where another process has left it, without what it has picked', async () => {
  const { db } = database
  await database.query(
    `insert into fillrate.changed_rows (source, keys, is_import)
     select 'people', array_agg(n::text order by n), true from generate_series(1, 2500) n`,
  )
  const left = async (): Promise<number> =>
    (await listQueuedChanges(db)).reduce((sum, { rows }) => sum + rows, 0)
  /** Picks a part by a process of its own. */
  const pick = async (isPayable: (key: number) => boolean): Promise<number[]> => {
    const queue = new ChangeQueue(db)
    const part = await queue.nextBulkPart(['people'])
    if (part === null) return []
    await queue.advanceBulk(
      part,
      part.keys.filter((key) => !isPayable(Number(key))),
    )
    return part.keys.map(Number)
  }
  expect(await left()).toBe(2_500)
  const all = await pick(() => true)
  expect([all[0], all.at(-1), await left()]).toEqual([1, 1_000, 1_500])
  // A budget pays a few of the next part: the others come first when it is there again.
  expect((await pick((key) => key <= 1_200)).at(0)).toBe(1_001)
  expect(await left()).toBe(1_300)
  expect((await pick(() => false)).at(0)).toBe(1_201)
  expect(await left()).toBe(1_300)
  all.push(...(await pick(() => true)), ...(await pick(() => true)))
  expect(all.toSorted((a, b) => a - b)).toEqual([
    ...Array.from({ length: 1_000 }, (_, n) => n + 1),
    ...Array.from({ length: 1_300 }, (_, n) => n + 1_201),
  ])
  expect(await left()).toBe(0)
  expect(await pick(() => true)).toEqual([])
})
