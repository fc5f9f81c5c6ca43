import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { readSpend } from '../../../src/actions/spend.ts'
import { parseConfig } from '../../../src/config/load.ts'
import { countAnswered, insertContacts, openFollowedDay } from '../../support/day.ts'

// A day of two daemons whose key another client uses: beside them, until the service bans the key, and until nothing is
// left for an hour.

const { day, config } = await openFollowedDay({ limit: 20, windowMs: 3_000 })
afterAll(() => day.close())

let inserted = 0
/** Lookups of the other client that the service has answered. */
let foreign = 0

/** Another client of the same key, which looks up companies, as many as it gets, until it is stopped. */
class OtherClient {
  #isStopped = false
  readonly #work: Promise<void>

  constructor() {
    this.#work = this.#run()
    onTestFinished(() => this.stop())
  }

  async #run(): Promise<void> {
    const [key] = day.sandbox.keys
    for (let n = 0; !this.#isStopped; n++) {
      const url = `${day.sandbox.url}/v1/company/enrich?domain=other${n}.example`
      const { status } = await fetch(url, { headers: { authorization: `Bearer ${key}` } })
      if (status === 200 || status === 404) foreign++
      await sleep(20)
    }
  }

  stop(): Promise<void> {
    this.#isStopped = true
    return this.#work
  }
}

const countRefused = async (): Promise<number> => {
  const [row] = await day.query<{ calls: number }>(
    `select coalesce(sum(throttled), 0)::int as calls from fillrate.spend`,
  )
  return row?.calls ?? 0
}

const insert = (rows: number): Promise<unknown> => insertContacts(day, inserted + 1, (inserted += rows))
const expectAnswered = async (): Promise<void> => {
  await expect.poll(() => countAnswered(day)).toBe(inserted)
}

/** Calls on, a row at a time, until something is so. */
const insertUntil = async (isSo: () => Promise<boolean>): Promise<void> => {
  await expect
    .poll(
      async () => {
        await insert(1)
        return isSo()
      },
      { interval: 500 },
    )
    .toBe(true)
}

/** Only the daemon's own calls show that the other client is gone: a restart does not. */
const insertUntilGone = (times: number): Promise<void> =>
  insertUntil(async () => day.logged('condition_ended', 'throttled').length >= times)

const SHARED = /^Another client uses the API key/
const BANNED = /has banned the API key/
const readCondition = async (title: RegExp) => (await day.listShown()).find((one) => title.test(one.title))

test('another client of the key is seen, and that it is gone, while the daemons go on calling', async () => {
  const other = new OtherClient()
  await insertUntil(async () => (await readCondition(SHARED)) !== undefined)
  await day.see('throttled')
  await other.stop()
  await insertUntil(async () => day.logged('condition_ended', 'throttled').length > 0)
  await day.over('throttled')
  await expectAnswered()
})

test('a ban for the calls of another client is seen, and its end', async () => {
  day.sandbox.configure({ limit: 20, windowMs: 3_000, banMs: 5_000 })
  const other = new OtherClient()
  const refused = await countRefused()
  await insertUntil(async () => (await countRefused()) > refused)
  day.sandbox.configure({ banAfter: 0 })
  await insert(1)
  await expect.poll(() => readCondition(BANNED)).toBeDefined()
  // The service lifts the ban, and the other client is quiet.
  await other.stop()
  day.sandbox.configure({ limit: null, banAfter: null })
  await day.restartLater(config)
  await expectAnswered()
  await insertUntilGone(2)
  await day.over('throttled')
})

test('another client that leaves nothing for an hour is one condition, which says how long calls wait', async () => {
  // Daemons that have made so many calls themselves would take the limit for used up by these.
  await expectAnswered()
  await day.restartLater(config)
  day.sandbox.configure({ limit: 20, windowMs: 3_600_000 })
  const usedUp = foreign + 20
  const other = new OtherClient()
  await expect.poll(() => foreign).toBe(usedUp)
  await insert(10)
  await day.see('throttled')
  await expect
    .poll(async () => (await readCondition(SHARED))?.meaning)
    .toMatch(/^No call has been permitted for \d+ s; \d+ rows? waits?\. They continue by themselves in /)
  // The other client has got a key of its own.
  await other.stop()
  day.sandbox.configure({ limit: null })
  await day.restartLater(config)
  await insertUntilGone(3)
  await expectAnswered()
  await day.over('throttled')
})

test('the money is what the service has counted without the other client, to the lookup', async () => {
  await day.stopAll()
  const spend = await readSpend(day.database.db, parseConfig(config, null))
  const { inputs } = day.sandbox.stats()
  expect(inputs.unanswered).toBe(0)
  expect(inputs.requested_singly + inputs.requested_in_bulk).toBe(inserted + foreign)
  expect(spend.today).toMatchObject({ lookups: inserted, in_doubt: 0 })
})
