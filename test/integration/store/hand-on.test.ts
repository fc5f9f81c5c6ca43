import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { resumeHandedOn } from '../../../src/store/hand-on.ts'
import { insertRun } from '../../../src/store/runs.ts'
import { insertService, recordServiceName } from '../../../src/store/services.ts'
import { inTransaction } from '../../../src/store/transaction.ts'
import { useTestDatabase } from '../../support/database.ts'

const database = useTestDatabase()

const SERVICES = ['acme', 'beta']

/** The runs of a group, one for each service. @param leaseMs below 0: their process is dead */
async function startGroup(leaseMs: number): Promise<readonly number[]> {
  const ids: number[] = []
  for (const [service, name] of SERVICES.entries()) {
    await recordServiceName(database.db, await insertService(database.db, `${name}.example`, []), name)
    const run = { trigger: 'manual', sources: ['people'], options: {} as never, owner: 'test' } as const
    const group = ids[0] === undefined ? {} : { group: ids[0] }
    ids.push(await insertRun(database.db, { ...run, token: randomUUID(), leaseMs, service, ...group }))
  }
  await database.query('update fillrate.runs set group_id = id where id = $1', [ids[0]])
  return ids
}

test.each([
  { before: 'is dead, although no process has noticed', leaseMs: -1_000, after: 'runs', goesOn: true },
  { before: 'runs', leaseMs: 60_000, after: 'runs', goesOn: null },
  // This service is done with it: it would be requested with the next identifier of a cascade.
  { before: 'is dead', leaseMs: -1_000, after: 'has ended', goesOn: false },
])(
  'a row that waits for a later service whose run $before, and whose next run $after',
  async ({ leaseMs, after, goesOn }) => {
    await database.query('truncate fillrate.rows')
    const [, handedOnTo] = await startGroup(leaseMs)
    const [first, later] = await startGroup(60_000)
    if (after === 'has ended')
      await database.query(
        `update fillrate.runs set state = 'completed', finished_at = now() where id = $1`,
        [later],
      )
    await database.query(
      `insert into fillrate.rows (source, key, run_id, service_id, input_hash, state) values ('people', '1', $1, 0, 1, 'waiting')`,
      [handedOnTo],
    )
    const resume = () =>
      inTransaction(database.db, (tx) =>
        resumeHandedOn(tx, 'people', ['1'], { run: first ?? 0, services: SERVICES }),
      )
    expect(await resume()).toEqual(goesOn === null ? [] : [{ key: '1', isResumed: goesOn }])
    expect(await database.scalar<string>('select run_id from fillrate.rows')).toBe(
      String(goesOn === true ? later : handedOnTo),
    )
  },
)
