import { afterAll, beforeAll, expect, test } from 'vitest'
import { answerJson } from '../../support/loopback.ts'
import { expectCondition, type Fault, OnCall } from '../../support/on-call.ts'
import { useTestDatabase } from '../../support/database.ts'

// What one of two services does wrong, begun and ended for real: its name is on every channel, and the other one's on none.

const database = useTestDatabase()
let hour: OnCall
beforeAll(async () => {
  hour = await OnCall.open(database.url)
})
afterAll(async () => {
  await hour.close()
  console.log(hour.formatTimes())
})

const ofBeta = { service: 'beta', source: null } as const
const ofAcme = { service: 'acme', source: null } as const
/** What fails is called often enough to be seen at once. */
const ROWS = 40

/** An answer that comes in place of the service's. */
const replaced = (
  ...[service, answer]: Parameters<OnCall['replaceService']>
): Pick<Fault, 'begin' | 'end'> => ({
  begin: async (it) => {
    await it.replaceService(service, answer)
    await it.startNightly(ROWS)
  },
  end: (it) => it.restoreService(service),
})

const FAULTS: readonly Fault[] = [
  {
    ...ofBeta,
    name: 'key refused and replaced',
    kind: 'key_refused',
    title: /beta rejects the API key/,
    begin: async (it) => {
      it.beta.configure({ keys: ['next-key'] })
      await it.startNightly(ROWS)
    },
    end: async (it) => {
      await it.stop()
      const startedAt = Date.now()
      await it.start('start', { FILLRATE_BETA_API_KEY: 'next-key' })
      return startedAt
    },
  },
  {
    ...ofBeta,
    name: 'credits used up',
    kind: 'out_of_credits',
    title: /The account at beta has no credits left/,
    ...replaced('beta', (response) => answerJson(response, 402, { error: 'no credits left' })),
    // The next run finds out.
    end: async (it) => {
      await it.restoreService('beta')
      await it.endNights()
      const boughtAt = Date.now()
      await it.startNightly(0)
      return boughtAt
    },
  },
  {
    ...ofBeta,
    name: 'service down',
    kind: 'service_failing',
    title: /Cannot reach beta/,
    ...replaced('beta', null),
  },
  {
    // What comes back soon is not notified of at once: of the other service.
    ...ofAcme,
    name: 'HTML answers',
    kind: 'service_failing',
    title: /acme answers with errors/,
    ...replaced('acme', (response) => {
      response
        .writeHead(200, { 'content-type': 'text/html' })
        .end('<!doctype html><h1>Down for maintenance</h1>')
    }),
  },
  {
    ...ofBeta,
    name: '429 without headers',
    kind: 'throttled',
    title: /Calls to beta have been waiting/,
    ...replaced('beta', (response) => answerJson(response, 429, {})),
  },
]

test.each(FAULTS)('$name: one condition of one service, with one end on every channel', (fault) =>
  expectCondition(hour, fault),
)

test('each kind of warning or error is logged once a minute at most, and each row has its record', async () => {
  hour.endTraffic()
  expect(hour.listRepeatedLines()).toEqual([])
  await hour.endNights()
  await hour.startNightly(0)
  await hour.endNights()
  await expect.poll(() => hour.query('select from crm.leads where title is null')).toEqual([])
  // A call whose answer was lost may be paid twice, and is counted.
  const [spent] = await hour.query<{ doubt: number }>(
    'select sum(in_doubt)::int as doubt from fillrate.spend',
  )
  const twice = [hour.acme, hour.beta].map((sandbox) => sandbox.stats().inputs.paid_more_than_once)
  expect(twice.reduce((sum, one) => sum + one)).toBeLessThanOrEqual(spent?.doubt ?? 0)
  await hour.stop()
})
