import { describe, expect, test } from 'vitest'
import { rawStatus } from '../service/loopback-service.ts'
import { ANSWERING, createCalls, DELIVERING, serveAnswers, type Calls } from './odd-answers.ts'

/** All that have a meaning anywhere, and the ends of each class. */
const STATUSES = Array.from({ length: 500 }, (_, i) => i + 100).filter(
  (status) => status % 100 <= 31 || status % 100 === 51 || status % 100 === 99 || status >= 500,
)
const byStatus = (of: (status: number) => string): Record<number, string> =>
  Object.fromEntries(STATUSES.map((status) => [status, of(status)]))

/** A lookup that gets the same answer each time, while all others are answered. @returns its end and its calls */
async function lookUpUntilOver({ call }: Calls): Promise<string> {
  for (let calls = 1; calls <= 6; calls++) {
    const { state, stop, doubt } = await call(1, true)
    if (stop !== null) return `stopped ${calls}`
    if (state !== 'pending') return `${state} ${calls}${doubt > 0 ? ' in doubt' : ''}`
    await call(1 + calls, false)
  }
  return 'waits for the limit'
}

async function postUntilOver({ post }: Calls, isAlone: boolean): Promise<string> {
  for (let calls = 1; calls <= 6; calls++) {
    const { state, stop, mayBeBilled } = await post(1, true)
    if (stop !== null) return `stopped ${calls}`
    if (state !== 'submitting') return `${state} ${calls}${mayBeBilled ? ' in doubt' : ''}`
    if (!isAlone) await post(1 + calls, false)
  }
  return 'waits for the limit'
}

const SETTING = new Set([402, 405, 407, 501, 505])
const UNSUPPORTED = new Set([406, 410, 411, 412, 415, 417, 426, 428])
const BUSY = new Set([408, 421, 423, 425])

/** What one input comes to whose every answer has this status, while all others are answered. */
function expectedLookup(status: number): string {
  // A 1xx is no answer: the connection was closed after it.
  if (status < 200) return 'failed 3 in doubt'
  if (status === 202) return 'accepted 1'
  if (status < 300) return 'failed 5 in doubt'
  if (status < 400 || SETTING.has(status) || BUSY.has(status)) return 'failed 5'
  if (status === 401) return 'stopped 1'
  if (status === 403) return 'rejected 2'
  if (status === 404) return 'not_found 1'
  // Once it is the limit's.
  if (status === 429) return 'failed 6'
  if (UNSUPPORTED.has(status)) return 'rejected 2'
  if (status < 500) return 'rejected 1'
  return status === 500 || status === 503 || status === 511 ? 'failed 5' : 'failed 5 in doubt'
}

/** The same of one job, while others are accepted. Its inputs are requested singly where it is `rejected`. */
function expectedJob(status: number): string {
  if (status < 200) return 'in_doubt 1'
  if (status === 202) return 'submitted 1'
  if (status < 300) return 'in_doubt 1'
  if (status === 401) return 'stopped 1'
  if (status === 403) return 'rejected 2'
  if (status === 429) return 'waits for the limit'
  if (status < 400 || status === 404 || SETTING.has(status) || BUSY.has(status)) return 'rejected 5'
  if (status < 500) return 'rejected 1'
  if (status === 500) return 'rejected 5 in doubt'
  return status === 503 || status === 511 ? 'rejected 5' : 'in_doubt 1'
}

describe('an answer to one input, while others are answered', () => {
  test('ends its lookup within six calls and stops no other, whatever its status from 100 to 599', async () => {
    const shared = await serveAnswers()
    const found: Record<number, string> = {}
    for (const status of STATUSES)
      found[status] = await lookUpUntilOver(await createCalls(() => rawStatus(status), { shared }))
    expect(found).toEqual(byStatus(expectedLookup))
  })

  test.for([
    { status: 404, headers: { 'content-type': 'text/html' }, body: '<html>gone</html>' },
    { status: 404, body: 'page not found' },
    { status: 301 },
    { status: 405 },
    { status: 402 },
  ])('does not stop the run even if it comes first: $status $body', async ({ status, ...rest }) => {
    const { call } = await createCalls(() => rawStatus(status, rest))
    const states: string[] = []
    for (let tries = 1; tries <= 5; tries++) {
      const { state, stop } = await call(1, true)
      expect(stop).toBeNull()
      states.push(state)
      expect((await call(1 + tries, false)).state).toBe('not_found')
    }
    expect(states).toEqual(['pending', 'pending', 'pending', 'pending', 'failed'])
  })
})

describe('an answer to one job, while others are accepted', () => {
  test.each([
    ['delivered', DELIVERING],
    ['answered', ANSWERING],
  ])('ends its submission within five calls, whatever its status; results are %s', async (_, service) => {
    const shared = await serveAnswers()
    const found: Record<number, string> = {}
    for (const status of STATUSES) {
      const calls = await createCalls(() => rawStatus(status), { shared, service })
      // Others were accepted before it, too.
      await calls.post(0, false)
      found[status] = await postUntilOver(calls, false)
    }
    expect(found).toEqual(byStatus(expectedJob))
  })

  test('waits for Retry-After before it is posted again', async () => {
    const answer = (status: number) => () => rawStatus(status, { headers: { 'retry-after': '600' } })
    for (const status of [408, 423, 500, 503])
      expect((await (await createCalls(answer(status))).post(1, true)).waitMs).toBe(600_000)
  })

  test('is in doubt for its inputs after a 500, which its service asks to repeat', async () => {
    const { post } = await createCalls(() => rawStatus(500))
    expect(await post(1, true)).toMatchObject({ state: 'submitting', mayBeBilled: true })
  })
})

describe('an answer to all inputs that says that a setting is wrong', () => {
  const wrong = () => rawStatus(301)

  test('stops the run: at the third input, at an only input the second time, later at the tenth', async () => {
    const first = await createCalls(wrong)
    const stops: boolean[] = []
    for (let id = 1; id <= 3; id++) stops.push((await first.call(id, true)).stop !== null)
    expect(stops).toEqual([false, false, true])

    const alone = await createCalls(wrong)
    expect((await alone.call(1, true)).stop).toBeNull()
    expect((await alone.call(1, true)).stop).toMatchObject({ status: 301, action: 'abort_run' })

    const later = await createCalls(wrong)
    await later.call(0, false)
    const moved: boolean[] = []
    for (let id = 1; id <= 10; id++) moved.push((await later.call(id, true)).stop !== null)
    expect(moved).toEqual([...Array.from({ length: 9 }, () => false), true])
  })

  test('stops the run at the third job, or at an only job the second time, and never rejects a table', async () => {
    const outcomes: Record<number, string> = {}
    for (const status of [301, 402, 404, 405, 406, 410, 415, 426, 428, 501]) {
      const jobs = await createCalls(() => rawStatus(status))
      const stops: boolean[] = []
      for (let id = 1; id <= 3; id++) stops.push((await jobs.post(id, true)).stop !== null)
      const lookups = await createCalls(() => rawStatus(status, { headers: { 'content-type': 'text/html' } }))
      const states: string[] = []
      for (let id = 1; id <= 3; id++) {
        const { state, stop } = await lookups.call(id, true)
        states.push(stop === null ? state : 'stopped')
      }
      outcomes[status] = `${stops.join(' ')} ${states.join(' ')}`
      expect(await postUntilOver(await createCalls(() => rawStatus(status)), true)).toBe('stopped 2')
    }
    expect(new Set(Object.values(outcomes))).toEqual(new Set(['false false true pending pending stopped']))
  })
})

test('a poll fails for itself only: every status but a 401 leaves the job to its next poll, and 410 gives it up', async () => {
  const shared = await serveAnswers()
  const found: Record<number, string> = {}
  for (const status of STATUSES) {
    const { poll } = await createCalls(() => rawStatus(status), { shared })
    const { reading, stop } = await poll('odd')
    found[status] = stop === null ? reading.outcome : 'stopped'
  }
  expect(found).toEqual(
    byStatus((status) => (status === 401 ? 'stopped' : status === 410 ? 'gone' : 'pending')),
  )
})
