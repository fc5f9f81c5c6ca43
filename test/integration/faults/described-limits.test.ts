import { test } from 'vitest'
import hunter from '../../../examples/services/hunter.ts'
import leadiq from '../../../examples/services/leadiq.ts'
import {
  expectBilledAsCounted,
  NAMED,
  type PeopleSource,
  runDescribed,
  scale,
} from '../../support/described-runs.ts'
import { playDescribed, type StatedWindow } from '../../support/described-service.ts'

interface Measured {
  readonly service: typeof hunter | typeof leadiq
  readonly windows: readonly StatedWindow[]
  readonly limit: string | readonly string[]
  readonly people: number
  readonly body: object
  readonly error: object
}

const HUNTER: Measured = {
  service: hunter,
  windows: [
    { calls: 20, ms: 1_000 },
    { calls: 30, ms: 3_000 },
  ],
  limit: ['20 per second', '30 per 3 seconds'],
  people: 120,
  body: { data: { position: 'Analyst', email: 'p@found.example', score: 97 } },
  error: { errors: [{ code: 500 }] },
}
const LEADIQ: Measured = {
  service: leadiq,
  windows: [{ calls: 20, ms: 2_000 }],
  limit: '20 per 2 seconds',
  people: 90,
  body: { data: { searchPeople: { results: [{ id: 'p', currentPositions: [{ title: 'Analyst' }] }] } } },
  error: { errors: [{ extensions: { response: { status: 500 } } }] },
}

test.each([
  ['Hunter', HUNTER, 1],
  ['LeadIQ', LEADIQ, 0.1],
])(
  '%s: no call is refused, and each is billed as it is counted',
  async (name, { service, ...measured }, price) => {
    const title = name === 'Hunter' ? 'position' : 'position.title'
    const sources: PeopleSource[] = [{ table: 'people', people: measured.people, inputs: NAMED, title }]
    const standIn = await playDescribed({
      windows: measured.windows,
      faults: { inBody: () => ({ body: measured.error }) },
      latencyMs: [20, 200],
      answer: (request, account) => {
        account.bill(JSON.stringify([request.query, request.body]), price)
        return { body: measured.body }
      },
    })
    const limited = scale(service, { limit: measured.limit })
    const { database } = await runDescribed({ standIn, sources, service: limited, key: 'key' })
    await expectBilledAsCounted(database, standIn)
  },
)
