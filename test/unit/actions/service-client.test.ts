import { firstOf } from '../../../src/runs/run-part.ts'
import { expect, onTestFinished, test } from 'vitest'
import { openServiceClient } from '../../../src/actions/actions.ts'
import { parseConfig } from '../../../src/config/load.ts'
import { testEnvironment } from '../../support/environment.ts'
import { serveAlways } from '../service/loopback-service.ts'
import { personSource } from '../../support/crm.ts'

test.each([
  { concurrency: 1, connections: 2 },
  { concurrency: 32, connections: 40 },
])(
  '$concurrency concurrent calls go over up to $connections connections',
  async ({ concurrency, connections }) => {
    const service = await serveAlways(404, {})
    const config = parseConfig(
      {
        sources: {
          people: personSource('people', { title: 'title' }),
        },
        service: { concurrency },
        budget: 'unlimited',
      },
      null,
    )
    const environment = testEnvironment('postgres://localhost/unused', service.baseUrl)
    const client = openServiceClient(
      { config: firstOf(config.services), environment },
      { recordCall: () => {} },
      () => {},
    )
    onTestFinished(() => client.close())
    // Each call of a slot begins as soon as the one before it is answered: its connection is not free yet.
    const callInTurn = async (slot: number): Promise<void> => {
      for (let i = 0; i < 5; i++) await client.enrichPerson({ email: `${slot}-${i}@x.example` })
    }
    await Promise.all(Array.from({ length: concurrency }, (_, slot) => callInTurn(slot)))
    const used = new Set(service.received.map(({ socket }) => socket))
    expect(used.size).toBeGreaterThan(concurrency)
    expect(used.size).toBeLessThanOrEqual(connections)
  },
)
