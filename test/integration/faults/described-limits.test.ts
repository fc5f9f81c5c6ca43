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
import { playDescribed, type StatedWindow, utilisationOf } from '../../support/described-service.ts'

// How much of a limit is used is a measurement: it is printed, and only refusals fail. `DESCRIBED=whole` takes the documented
// limits, and five minutes.
const isWhole = process.env['DESCRIBED'] === 'whole'

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
  windows: isWhole
    ? [
        { calls: 15, ms: 1_000 },
        { calls: 500, ms: 60_000 },
      ]
    : [
        { calls: 20, ms: 1_000 },
        { calls: 30, ms: 3_000 },
      ],
  limit: isWhole ? ['15 per second', '500 per minute'] : ['20 per second', '30 per 3 seconds'],
  people: isWhole ? 1_120 : 120,
  body: { data: { position: 'Analyst', email: 'p@found.example', score: 97 } },
  error: { errors: [{ code: 500 }] },
}
const LEADIQ: Measured = {
  service: leadiq,
  windows: [isWhole ? { calls: 60, ms: 60_000 } : { calls: 20, ms: 2_000 }],
  limit: isWhole ? '60 per minute' : '20 per 2 seconds',
  people: isWhole ? 125 : 90,
  body: { data: { searchPeople: { results: [{ id: 'p', currentPositions: [{ title: 'Analyst' }] }] } } },
  error: { errors: [{ extensions: { response: { status: 500 } } }] },
}

test.each([
  ['Hunter', HUNTER, 1],
  ['LeadIQ', LEADIQ, 0.1],
])('%s: the limit is used, and not exceeded', async (name, { service, ...measured }, price) => {
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
  const shares = measured.windows.map((window) => utilisationOf(standIn.calls, window).toFixed(3))
  console.log(`${name}: ${standIn.calls.length} calls, of the limits used: ${shares.join(', ')}`)
})
