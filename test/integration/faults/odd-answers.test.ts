import { expect, onTestFinished, test } from 'vitest'
import { createCommandLine } from '../../support/cli.ts'
import { personSource } from '../../support/crm.ts'
import { createTestDatabase } from '../../support/database.ts'
import { rawStatus, serveRaw, type RawAnswer } from '../../unit/service/loopback-service.ts'

// A fault belongs to what is at fault: whole runs of the command line against a service that answers some inputs oddly.

const CONFIG = {
  sources: { contacts: personSource('contacts', { title: 'title' }, { key: 'id' }) },
  budget: 'unlimited',
}

interface Report {
  readonly rows?: Record<string, number>
}

/** Runs the command line on so many contacts. @param answer null: a record */
async function run(rows: number, answer: (email: string, call: number) => RawAnswer | null, attempts = 5) {
  const database = await createTestDatabase()
  const calls = new Map<string, number>()
  let total = 0
  const service = await serveRaw(({ body }) => {
    const email = (JSON.parse(body) as { email: string }).email
    calls.set(email, (calls.get(email) ?? 0) + 1)
    const record = { body: JSON.stringify({ email, title: 'CTO', confidence: 0.9 }) }
    return answer(email, ++total) ?? rawStatus(200, record)
  })
  await database.query(
    `create table contacts (id int primary key, email text, title text);
     insert into contacts select n, 'p' || n || '@company.example' from generate_series(1, ${rows}) n`,
  )
  const fillrate = await createCommandLine(
    database.url,
    { url: service.baseUrl, keys: ['key'], webhookSecret: 'secret' },
    { ...CONFIG, attempts },
  )
  onTestFinished(async () => {
    await fillrate.remove()
    await database.drop()
  })
  expect(await fillrate.run('migrate')).toMatchObject({ code: 0 })
  const runAgain = () => fillrate.run('run', '--route', 'sync', '--json')
  const { code, stdout, stderr } = await runAgain()
  const { rows: counts = {} } = JSON.parse(stdout) as Report
  return { code, rows: counts, stdout, stderr, calls, runAgain }
}

const numberOf = (email: string): number => Number(email.slice(1, email.indexOf('@')))
const toInput = (n: number): string => `p${n}@company.example`

test('what invites a retry ends the run: of 300 inputs, one each gets 408, 421, 423 and 425 every time', async () => {
  const { code, rows, calls } = await run(300, (email) =>
    numberOf(email) <= 4 ? rawStatus([408, 421, 423, 425][numberOf(email) % 4] ?? 408) : null,
  )
  expect(rows).toMatchObject({ picked: 300, enriched: 296 })
  expect((rows['waiting'] ?? 0) + (rows['failed'] ?? 0)).toBe(4)
  expect(code).toBe(3)
  for (const count of calls.values()) expect(count).toBeLessThanOrEqual(5)
})

test('one odd answer ends no run: of 400 inputs, one gets each', async () => {
  const odd = new Map([
    [toInput(1), rawStatus(404, { body: 'page not found' })],
    [toInput(70), rawStatus(404, { headers: { 'content-type': 'text/html' }, body: '<html>' })],
    [toInput(140), rawStatus(301, { headers: { location: 'https://other.example' } })],
    [toInput(210), rawStatus(405)],
    [toInput(280), rawStatus(402)],
    [toInput(350), rawStatus(410)],
    [toInput(400), rawStatus(426)],
  ])
  const { code, rows, calls } = await run(400, (email) => odd.get(email) ?? null)
  expect(rows).toMatchObject({ picked: 400, enriched: 393, rejected: 2 })
  expect((rows['waiting'] ?? 0) + (rows['failed'] ?? 0)).toBe(5)
  expect(code).toBe(3)
  for (const email of odd.keys()) expect(calls.get(email)).toBeLessThanOrEqual(5)
})

test.each([
  ['a wrong base URL', rawStatus(404, { body: 'page not found' }), 'FILLRATE_BASE_URL'],
  ['a version that is gone', rawStatus(410), 'the description of the service'],
  [
    'a record where none is looked for',
    rawStatus(200, { body: '{"contact":{}}' }),
    'has none as `data`, `person`',
  ],
])('%s stops the run with the third input, rejects none, and is named', async (_, answer, words) => {
  const { code, rows, stderr, calls } = await run(400, () => answer)
  expect(code).toBe(2)
  expect(stderr).toContain(words)
  // No cause is named that was not seen.
  expect(stderr).not.toContain('FILLRATE_API_KEY')
  expect(rows).toMatchObject({ picked: 400, waiting: 400, rejected: 0, failed: 0 })
  // Three, and what was on the wire.
  expect(calls.size).toBeLessThan(50)
})

const again = (seconds: number) => rawStatus(429, { headers: { 'retry-after': `${seconds}` } })

test.each([
  ['403 to one input in twenty', (n: number) => (n % 20 === 0 ? rawStatus(403) : null), 95],
  ['429 to two inputs, each time', (n: number) => (n <= 2 ? again(1) : null), 98],
])('%s ends no run, and keeps no other from its answer', async (_, answer, enriched) => {
  const { code, rows, calls } = await run(100, (email) => answer(numberOf(email)), 2)
  expect(rows).toMatchObject({ picked: 100, enriched, waiting: 0 })
  expect(code).toBe(3)
  for (const count of calls.values()) expect(count).toBeLessThanOrEqual(6)
})

/** The headers of a day's quota of twenty calls. */
const ofDay = (call: number) => ({
  'x-ratelimit-limit': '20',
  'x-ratelimit-remaining': String(Math.max(0, 20 - call)),
  'x-ratelimit-reset': '80000',
})
test.each([
  ['a Retry-After of eleven hours', (call: number) => (call > 20 ? again(39_600) : null)],
  [
    'a quota of a day that is used up',
    (call: number) => rawStatus(call > 20 ? 429 : 404, { headers: ofDay(call) }),
  ],
  [
    'a Retry-After of eleven hours beside a quota of which much is left',
    (call: number) => {
      const headers = { ...ofDay(call), 'x-ratelimit-limit': '9000', 'x-ratelimit-remaining': '8000' }
      return call > 20
        ? rawStatus(429, { headers: { ...headers, 'retry-after': '39600' } })
        : rawStatus(404, { headers })
    },
  ],
])('%s ends the run, which says until when, and the next one makes one call at most', async (_, answer) => {
  const { code, rows, stdout, calls, runAgain } = await run(60, (_email, call) => answer(call))
  expect(stdout).toMatch(/"reason":.*until \d\d:\d\d/)
  expect(code).toBe(3)
  expect(rows['waiting']).toBeGreaterThanOrEqual(39)
  expect(calls.size).toBeLessThan(45)
  const countCalls = (): number => [...calls.values()].reduce((sum, count) => sum + count, 0)
  const made = countCalls()
  expect(await runAgain()).toMatchObject({
    code: 3,
    stdout: expect.stringMatching(/until \d\d:\d\d/) as string,
  })
  expect(countCalls()).toBeLessThanOrEqual(made + 1)
})

test('a blocked input after a 429 is no ban of the others: 300 rows end', async () => {
  const { code, rows, calls } = await run(300, (email, call) => {
    if (call === 20) return rawStatus(429, { headers: { 'retry-after': '1' } })
    return email === toInput(40) ? rawStatus(403) : null
  })
  expect(rows).toMatchObject({ picked: 300, enriched: 299 })
  expect((rows['rejected'] ?? 0) + (rows['waiting'] ?? 0)).toBe(1)
  expect(code).toBe(3)
  expect(calls.get(toInput(40))).toBeLessThanOrEqual(6)
})
