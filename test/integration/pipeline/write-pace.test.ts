import { beforeEach, expect, test } from 'vitest'
import { writeBackBatch } from '../../../src/pipeline/write-back.ts'
import { listSlowedWrites } from '../../../src/store/source-state.ts'
import { answeredPeople, type AnsweredPeople } from '../../support/answered-people.ts'
import { useTestDatabase } from '../../support/database.ts'

// `writes: { perHour: 600 }`: at once ten rows, and 590 in the hour after them.

const database = useTestDatabase()
let people: AnsweredPeople
beforeEach(async () => {
  const { deps, source, run } = await answeredPeople(database, 40)
  await database.query('truncate fillrate.source_state')
  people = { deps, run, source: { ...source, mapping: { ...source.mapping, writes: { perHour: 600 } } } }
})

const filled = () => database.count('people where title is not null')
const passTime = (ms: number) =>
  database.query(
    `update fillrate.source_state set allowed_at = allowed_at - ${ms} * interval '1 millisecond'`,
  )

/** Writes as a loop does, until nothing is allowed. */
async function writeAllowed({ deps, source }: AnsweredPeople): Promise<number> {
  let rows = 0
  for (let idle = 0; idle < 3; idle++) {
    const result = await writeBackBatch(deps, source)
    rows += result.rows
    if (result.rows > 0) idle = 0
  }
  return rows
}

test('several writers together write no more than the source allows, and go on with time', async () => {
  const written = await Promise.all([people, people, people].map(writeAllowed))
  expect(written.reduce((sum, rows) => sum + rows, 0)).toBe(10)
  expect(await filled()).toBe(10)
  expect(await listSlowedWrites(database.db, ['people'])).toEqual([{ source: 'people', per_hour: 600 }])
  expect(await listSlowedWrites(database.db, ['others'])).toEqual([])
  await passTime(30_000)
  const later = await Promise.all([people, people].map(writeAllowed))
  const sum = later.reduce((all, rows) => all + rows, 0)
  // Five, and what the test itself has taken.
  expect(sum).toBeGreaterThanOrEqual(4)
  expect(sum).toBeLessThanOrEqual(8)
  expect(await filled()).toBe(10 + sum)
  await passTime(86_400_000)
  expect(await writeAllowed(people)).toBe(10)
})

test('rows that were not written, and batches that were rolled back, are not charged', async () => {
  await database.query(`
    update people set title = 'kept' where id <= 12;
    create function refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
    create trigger refuse before update on people for each row when (old.id between 13 and 16) execute function refuse()`)
  try {
    const rows = await writeAllowed(people)
    expect(rows).toBeGreaterThanOrEqual(26)
    expect(await database.count("people where title like 'Title %'")).toBe(10)
    expect(await database.count("fillrate.rows where state = 'write_rejected'")).toBe(4)
  } finally {
    await database.query('drop trigger refuse on people; drop function refuse')
  }
})
