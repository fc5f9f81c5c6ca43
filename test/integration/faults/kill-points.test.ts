import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { isUnharmed } from '../../chaos/damage.ts'
import { prepareGround, type Ground } from '../../chaos/ground.ts'
import { killAt } from '../../chaos/kill.ts'

let ground: Ground
beforeAll(async () => {
  ground = await prepareGround(inject('postgresUrl'))
})
afterAll(() => ground.remove())

/** Where a death costs most. `npm run chaos` dies at each of the others as well. */
const WORST = [
  /^on the wire POST .*bulk$/, // the 202 is lost
  /^on the wire POST .*person\/enrich$/, // paid, and the answer is lost
  /^before with stored lookups/, // the answer came, and is not stored
  /^before insert deliveries/, // not acknowledged
  /^before commit \(delete write_back_queue/, // the source's cells are written, and not committed
]

test('a run can be killed at every step that commits or calls', () => {
  expect(ground.points.length).toBeGreaterThan(100)
  expect(WORST.filter((point) => !ground.points.some((one) => point.test(one)))).toEqual([])
})

test('after a SIGKILL at the worst points another run loses nothing, and pays nothing twice that is not counted', async () => {
  const points = WORST.map((point) => ground.points.find((one) => point.test(one)) ?? '')
  const queue = [...points]
  const killed: Awaited<ReturnType<typeof killAt>>[] = []
  const worker = async (): Promise<void> => {
    for (let point = queue.shift(); point !== undefined; point = queue.shift())
      killed.push(await killAt(ground, point))
  }
  await Promise.all([worker(), worker(), worker(), worker()])
  expect(killed.filter((one) => !one.made)).toEqual([])
  expect(killed.filter((one) => !isUnharmed(one))).toEqual([])
  // What was on the wire is counted: the exception is stated, not hidden.
  expect(
    killed.find((one) => /^on the wire POST .*person\/enrich$/.test(one.point))?.inDoubt,
  ).toBeGreaterThan(0)
})
