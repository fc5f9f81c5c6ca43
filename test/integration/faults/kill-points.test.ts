import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { holdsInvariants } from '../../chaos/invariants.ts'
import { COMMANDS, prepareCommand } from '../../chaos/command-faults.ts'
import { prepareFixture, type ChaosFixture } from '../../chaos/fixture.ts'
import { killAt } from '../../chaos/process-faults.ts'
import { ONE_SERVICE, SEVERAL_SERVICES } from '../../chaos/scenario.ts'

/** The points at which a kill costs most. `npm run chaos` kills at all the others as well. */
const WORST = [
  /^on the wire POST .*bulk$/, // the 202 is lost
  /^on the wire POST .*person\/enrich$/, // paid, and the answer is lost
  /^before with stored lookups/, // the answer has arrived and is not stored
  /^before insert deliveries/, // not acknowledged
  /^before insert skipped_cells/, // bad cells are found, the others written, and nothing is stored
  /^before commit \(with returned rows/, // a row that was deleted is there again
  /^before commit \(delete answered_lookups/, // the source's cells are written and not committed
]

/** The same on the way from one of three services to the next, which each passes: the kill is at the second of three times. */
const WORST_OF_SEVERAL = [
  /^on the wire BETA POST .*bulk$/,
  /^on the wire GAMMA POST .*person\/enrich$/,
  /^before update rows/, // handed on
  /^after update rows/,
  /^before commit \(delete answered_lookups/, // written and handed on, and not committed
  /^after commit \(delete answered_lookups/, // handed on, and not picked by the next service
  /^after with existing runs/, // one service has its run, and the next has none
]

describe.each([
  { services: 'one service', scenario: ONE_SERVICE, worst: WORST },
  { services: 'three services in order', scenario: SEVERAL_SERVICES, worst: WORST_OF_SEVERAL },
])('$services', ({ scenario, worst }) => {
  let fixture: ChaosFixture
  beforeAll(async () => {
    fixture = await prepareFixture(inject('postgresUrl'), scenario)
  })
  afterAll(() => fixture.remove())

  test('there is a kill point at every step that commits or calls', () => {
    expect(fixture.points.length).toBeGreaterThan(100)
    expect(worst.filter((point) => !fixture.points.some(({ name }) => point.test(name)))).toEqual([])
  })

  test('after a SIGKILL at the worst points, another run loses nothing, and what is billed twice is counted', async () => {
    const queue = fixture.points.filter(({ name }) => worst.some((point) => point.test(name)))
    const killed: Awaited<ReturnType<typeof killAt>>[] = []
    const worker = async (): Promise<void> => {
      for (let point = queue.shift(); point !== undefined; point = queue.shift())
        killed.push(
          await killAt(fixture, point.name, scenario.services === null ? 1 : Math.ceil(point.times / 2)),
        )
    }
    await Promise.all([worker(), worker(), worker(), worker()])
    expect(killed.filter((one) => !one.wasKilled)).toEqual([])
    expect(killed.filter((one) => !holdsInvariants(one))).toEqual([])
    // Calls on the wire are counted as in doubt.
    expect(
      killed.find((one) => /^on the wire .*POST .*person\/enrich$/.test(one.point))?.inDoubt,
    ).toBeGreaterThan(0)
  })

  test.for(Object.keys(COMMANDS))(
    '`%s`, killed in its middle and given again, does what it does alone',
    async (name) => {
      const command = await prepareCommand(fixture, name)
      const commits = command.points.filter((point) => point.name.startsWith('after commit'))
      const killed = await command.kill(commits[(commits.length - 1) >> 1]?.name ?? '')
      expect(killed.wasKilled).toBe(true)
      expect(holdsInvariants(killed)).toBe(true)
    },
  )
})
