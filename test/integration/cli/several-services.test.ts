import { afterAll, expect, test } from 'vitest'
import type { RunReport } from '../../../src/domain/report/run.ts'
import { startSandbox } from '../../../src/sandbox/server.ts'
import { createCommandLine } from '../../support/cli.ts'
import { createTestDatabase } from '../../support/database.ts'
import {
  createPeople,
  listExpected,
  readBill,
  TRIO_NAMES,
  trioConfig,
  trioSandboxes,
  WRONG_ROWS,
} from '../../support/service-trio.ts'

/** `TRIO_PEOPLE=20000` takes two minutes. */
const PEOPLE = Number(process.env['TRIO_PEOPLE'] ?? 900)
/** Of more people the services allow more. */
const MORE = Math.min(5, PEOPLE / 900)

const database = await createTestDatabase()
await createPeople(database.pool, PEOPLE)
const play = trioSandboxes({ acme: 60 * MORE, beta: 24 * MORE, gamma: 10 * MORE }, 500, {
  latencyAfterMs: [10, 60],
})
const sandboxes = {
  acme: await startSandbox(play.acme),
  beta: await startSandbox(play.beta),
  gamma: await startSandbox(play.gamma),
}
const cli = await createCommandLine(database.url, sandboxes, trioConfig)
afterAll(async () => {
  await cli.remove()
  for (const one of Object.values(sandboxes)) await one.close()
  await database.drop()
})

test('after three SIGKILLs of two processes no row is lost, and what is paid twice is counted as in doubt', async () => {
  const start = () => cli.start('run', '--route', 'sync', '--json')
  const running = [start(), start()]
  const all = (await Promise.all(TRIO_NAMES.map((_, turn) => listExpected(database, turn)))).flat().length
  const countPaid = () => Object.values(sandboxes).reduce((sum, one) => sum + readBill(one).paid, 0)
  const countRuns = () => database.count('fillrate.runs')
  for (const [kills, share] of [0.2, 0.45, 0.7].entries()) {
    // On a busy machine a process may not have begun yet.
    await expect.poll(countRuns).toBe(running.length + kills)
    await expect.poll(countPaid).toBeGreaterThan(share * all)
    const [killed] = running.splice(0, 1)
    killed?.child.kill('SIGKILL')
    await killed?.ended
    running.push(start())
  }
  const ended = await Promise.all(running.map((one) => one.ended))
  expect(ended.map(({ code }) => code)).toEqual([0, 0])
  const last = await cli.run('run', '--route', 'sync', '--json')
  expect(JSON.parse(last.stdout) as RunReport).toMatchObject({ status: 'completed', rows: { waiting: 0 } })

  const interrupted = await database.count(`fillrate.runs where state = 'interrupted'`)
  // On a busy machine a process may have done its last row when the kill comes.
  expect(interrupted).toBeGreaterThanOrEqual(1)
  expect(interrupted).toBeLessThanOrEqual(3)
  expect(await database.count(`fillrate.rows where state <> 'waiting'`)).toBe(PEOPLE)
  expect(await database.count(WRONG_ROWS)).toBe(0)
  for (const [turn, name] of TRIO_NAMES.entries()) {
    const { people, paid } = readBill(sandboxes[name])
    const inDoubt = await database.scalar<number>(
      `select coalesce(sum(unconfirmed_calls), 0)::int from fillrate.lookups l
         join fillrate.services s on s.id = l.service_id where s.name = $1`,
      [name],
    )
    const isCounted = paid - people.length <= inDoubt
    const { refused } = sandboxes[name].stats().calls
    expect({ name, people, isCounted, refused }).toEqual({
      name,
      people: await listExpected(database, turn),
      isCounted: true,
      refused: 0,
    })
  }
})
