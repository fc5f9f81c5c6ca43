import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readSpend } from '../../../src/actions/spend.ts'
import { setTriggers } from '../../../src/actions/triggers.ts'
import { parseConfig } from '../../../src/config/parse.ts'
import { openSource } from '../../../src/sources/source.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { countAnswered, DayOnCall, insertContacts } from '../../support/day.ts'

// A day of two daemons whose service is slow, and whose key another client uses until the service bans it.

let day: DayOnCall
let config: ReturnType<typeof createConfig>
const createConfig = (url: string) => ({
  ...crmConfig,
  sources: { contacts: { ...crmConfig.sources.contacts, follow: true } },
  budget: 200,
  notify: [{ url, on: ['error', 'warning'] }],
})

beforeAll(async () => {
  day = await DayOnCall.open({})
  const { database } = day
  await createCrm(database.pool, 0)
  config = createConfig(day.notifyUrl)
  const { contacts } = parseConfig(config, null).sources
  if (contacts === undefined) throw new Error('there is no such source')
  await setTriggers(database.db, await openSource(database.db, contacts), 'install')
  // As many calls at once as a few rows can keep waiting.
  for (let n = 0; n < 2; n++) await day.start({ ...config, service: { concurrency: 4 } })
})
afterAll(() => day.close())

/** Lookups of the other client that the service has answered. */
let foreign = 0
let answered = 0

/** Another client of the same key looks up companies, as many as it gets, until it is stopped. */
function startAnotherClient(): () => Promise<void> {
  const [key] = day.sandbox.keys
  const headers = { authorization: `Bearer ${key}` }
  const stopped = new AbortController()
  const work = (async () => {
    for (let n = 0; !stopped.signal.aborted; n++) {
      const url = `${day.sandbox.url}/v1/company/enrich?domain=other${n}.example`
      const { status } = await fetch(url, { headers })
      if (status === 200 || status === 404) foreign++
      await sleep(20)
    }
  })()
  return () => {
    stopped.abort()
    return work
  }
}

/** The daemons end, and are started again an hour later. */
async function restartLater(): Promise<void> {
  await day.stopAll()
  await day.query(`update fillrate.rate_limits set exhausted_until = exhausted_until - interval '1 hour'`)
  await day.letTimePass()
  await day.start(config)
  await day.start(config)
}

const refusedCalls = async (): Promise<number> => {
  const [row] = await day.query<{ calls: number }>(
    `select coalesce(sum(calls), 0)::int as calls from fillrate.request_counts where status = '429'`,
  )
  return row?.calls ?? 0
}

test('a slow service, a key that another client uses up, and its ban are seen, and nothing is lost', async () => {
  const { sandbox } = day
  let inserted = 0
  const insert = (rows: number): Promise<unknown> => insertContacts(day, inserted + 1, (inserted += rows))
  const expectAnswered = async (): Promise<void> => {
    await expect.poll(() => countAnswered(day)).toBe(inserted)
  }
  const countCalls = async (): Promise<number> => {
    const [row] = await day.query<{ calls: number }>(
      'select coalesce(sum(calls), 0)::int as calls from fillrate.request_counts',
    )
    return row?.calls ?? 0
  }
  // What is usual, at three times.
  for (let n = 0; n < 3; n++) {
    await insert(6)
    await expectAnswered()
    await expect.poll(countCalls).toBe(inserted)
    await day.letTimePass()
  }

  sandbox.configure({ latencyAfterMs: 3_000 })
  let at = Date.now()
  await insert(40)
  await day.see(at, 'service_slow')
  expect(day.sightings.at(-1)?.verdict).toMatch(/ answers slowly: about [\d.]+ s a call, usually \d+ ms$/)
  sandbox.configure({ latencyAfterMs: 0 })
  at = Date.now()
  await expectAnswered()
  await day.over(at, 'service_slow')
  await restartLater()

  sandbox.configure({ limit: 20, windowMs: 3_000, banStatus: 403, banMs: 5_000 })
  let stopOther = startAnotherClient()
  at = Date.now()
  await expect
    .poll(
      async () => {
        await insert(1)
        return refusedCalls()
      },
      { interval: 500 },
    )
    .toBeGreaterThan(0)
  await day.see(at, 'shared_key')
  sandbox.configure({ banAfter: 0 })
  at = Date.now()
  await insert(1)
  await day.see(at, 'banned')
  // The service lifts the ban, and the other client is quiet.
  await stopOther()
  sandbox.configure({ limit: null, banAfter: null })
  at = Date.now()
  await restartLater()
  await expectAnswered()
  await day.over(at, 'banned', 'shared_key')

  sandbox.configure({ limit: 20, windowMs: 3_600_000, banStatus: 429 })
  stopOther = startAnotherClient()
  at = Date.now()
  await insert(30)
  await day.see(at, 'calls_waiting')
  // The other client has got a key of its own, and the service a higher limit.
  await stopOther()
  sandbox.configure({ limit: null })
  at = Date.now()
  await restartLater()
  await expectAnswered()
  await day.over(at, 'calls_waiting')
  answered = inserted
})

test('the money is what the service has counted without the other client, to the lookup', async () => {
  await day.stopAll()
  const spend = await readSpend(day.database.db, parseConfig(config, null))
  const { inputs } = day.sandbox.stats()
  expect(inputs.unanswered).toBe(0)
  expect(inputs.requested_singly + inputs.requested_in_bulk).toBe(answered + foreign)
  expect(spend.today).toMatchObject({ lookups: answered, in_doubt: 0 })
  expect(day.sightings).toHaveLength(4)
  await day.write(
    'day-rate',
    `Billed ${answered} = counted ${spend.today.lookups}, and ${foreign} of the other client`,
  )
})
