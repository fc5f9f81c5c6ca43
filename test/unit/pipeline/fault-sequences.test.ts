import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isUsefulPage, nextPollAt } from '../../../src/domain/job.ts'
import { rawStatus, serveAlways, type RawAnswer } from '../service/loopback-service.ts'
import { ANSWERING, createCalls, DEADLINE_MS, DELIVERING, serveAnswers } from './odd-answers.ts'

/** A few hundred here, more with FAULT_SEQUENCES. */
const RUNS = Number(process.env['FAULT_SEQUENCES'] ?? 150)
const ATTEMPTS = 5

const header = fc.constantFrom<Record<string, string>>(
  {},
  { 'retry-after': '-5' },
  { 'retry-after': '0' },
  { 'retry-after': '7' },
  { 'retry-after': '315360000' },
  { 'retry-after': 'Tue, 01 Jan 2008 00:00:00 GMT' },
  { 'retry-after': 'Fri, 01 Jan 2100 00:00:00 GMT' },
  { 'retry-after': 'soon' },
  { 'content-type': 'text/html' },
  { 'content-type': 'application/xml; charset=latin1' },
  { 'content-encoding': 'gzip' },
  { 'x-ratelimit-limit': 'many', 'x-ratelimit-remaining': '-1', 'x-ratelimit-reset': 'never' },
)

const body = fc.constantFrom(
  '',
  '{}',
  'null',
  '[]',
  '"a text"',
  '{"confidence":',
  '<html><body>gone</body></html>',
  '\u0000\u0001',
  '['.repeat(5_000),
  '{"success":false,"error":{"code":500}}',
  '{"status":"completed"}',
  '{"status":"failed","results":null}',
  '{"job_id":"j1"}',
  `{"x":"${'y'.repeat(200_000)}"}`,
)

interface Odd {
  readonly answer: RawAnswer
  /** A refusal by the limit is no attempt. */
  readonly isFree: boolean
}

/** Mostly statuses after which the call is made again. */
const status = fc.oneof(
  { weight: 1, arbitrary: fc.integer({ min: 100, max: 599 }) },
  {
    weight: 4,
    arbitrary: fc.constantFrom(
      200,
      204,
      301,
      402,
      403,
      405,
      407,
      408,
      421,
      423,
      425,
      429,
      500,
      501,
      502,
      503,
      504,
    ),
  },
)

const ofStatus = fc.tuple(status, header, body).map(([code, headers, text]): Odd => ({
  answer: rawStatus(code, { headers, body: text }),
  isFree: code === 429 || (code === 403 && 'retry-after' in headers),
}))

/** Connections that end before, within and after the head, and what is no HTTP. */
const cut = fc
  .constantFrom(
    '',
    'HTTP/1.1 200',
    'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"conf',
    'HTTP/1.1 503 Busy\r\ncontent-length: 100\r\n\r\n',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n',
    'SSH-2.0-OpenSSH\r\n',
    '\u0016\u0003\u0001',
    'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}',
  )
  .map((bytes): Odd => ({ answer: { bytes, end: 'close' }, isFree: false }))

const sequence = fc.array(fc.oneof({ weight: 4, arbitrary: ofStatus }, cut), { minLength: 40, maxLength: 40 })

/** The common run of a sequence: one input gets it, and others are answered between its calls. */
async function play(
  answers: readonly Odd[],
  step: () => Promise<{ readonly isOver: boolean; readonly waitMs: number }>,
  set: (next: () => RawAnswer) => void,
): Promise<{ readonly counted: number; readonly isOver: boolean; readonly longestMs: number }> {
  let calls = 0
  let longestMs = 0
  set(() => answers[calls++]?.answer ?? rawStatus(500))
  for (let isOver = false; !isOver && calls < answers.length;) {
    const before = calls
    const result = await step()
    isOver = result.isOver
    longestMs = Math.max(longestMs, result.waitMs)
    // Each step is one call: what is not sent again by itself cannot be paid twice.
    expect(calls - before).toBeLessThanOrEqual(1)
    if (isOver) return { counted: count(answers, calls), isOver, longestMs }
  }
  return { counted: count(answers, calls), isOver: false, longestMs }
}

const count = (answers: readonly Odd[], calls: number): number =>
  answers.slice(0, calls).filter(({ isFree }) => !isFree).length

const DAY_MS = 24 * 3_600_000

test.each([
  ['lookup', 'delivered', DELIVERING],
  ['submission', 'delivered', DELIVERING],
  ['submission', 'answered', ANSWERING],
] as const)(
  'every sequence of answers ends a %s in at most five calls that the limit did not refuse; results are %s',
  async (kind, _, service) => {
    const shared = await serveAnswers()
    await fc.assert(
      fc.asyncProperty(sequence, async (answers) => {
        const calls = await createCalls(() => rawStatus(500), { shared, service })
        const [make, unended] = kind === 'lookup' ? [calls.call, 'pending'] : [calls.post, 'submitting']
        // A first job was accepted.
        if (kind === 'submission') await make(0, false)
        let id = 1
        const step = async () => {
          const { state, stop, waitMs } = await make(1, true)
          await make(++id, false)
          return { isOver: stop !== null || state !== unended, waitMs }
        }
        const { counted, isOver, longestMs } = await play(answers, step, (next) => {
          shared.set.answer = next
        })
        expect(isOver).toBe(true)
        expect(counted).toBeLessThanOrEqual(ATTEMPTS)
        expect(longestMs).toBeLessThanOrEqual(DAY_MS)
      }),
      { numRuns: RUNS },
    )
  },
)

test('every sequence of answers leaves a job fetched at most 40 times in six hours, the last time before its deadline', async () => {
  const shared = await serveAnswers()
  await fc.assert(
    fc.asyncProperty(sequence, async (answers) => {
      let calls = 0
      const { poll } = await createCalls(() => answers[calls++ % answers.length]?.answer ?? rawStatus(500), {
        shared,
      })
      const job = { submittedAt: new Date(0), deadlineAt: new Date(DEADLINE_MS) }
      let at: Date | null = new Date(10_000)
      let polls = 0
      while (at !== null) {
        const { reading, retryAfterMs, stop } = await poll('odd')
        if (stop !== null || reading.outcome !== 'pending') return
        at = nextPollAt({ ...job, polls: ++polls }, { firstMs: 10_000, retryAfterMs }, at.getTime())
        expect(at === null || at.getTime() < DEADLINE_MS).toBe(true)
      }
      expect(polls).toBeLessThanOrEqual(40)
    }),
    { numRuns: RUNS },
  )
})

test('every sequence of pages ends: one for each input at once at most, and 40 fetches besides', () => {
  const pages = fc.record({
    isPage: fc.boolean(),
    results: fc.nat(3),
    /** It was not fetched before with the same cursor. */
    isNew: fc.boolean(),
  })
  fc.assert(
    fc.property(
      fc.array(pages, { minLength: 1, maxLength: 60 }),
      fc.integer({ min: 1, max: 1_000 }),
      (answers, size) => {
        const job = { submittedAt: new Date(0), deadlineAt: new Date(DEADLINE_MS) }
        let at: Date | null = new Date(10_000)
        let [polls, stored] = [0, 0]
        while (at !== null) {
          const { isPage, results, isNew } = answers[polls++ % answers.length] ?? {
            isPage: false,
            results: 0,
            isNew: false,
          }
          const later = nextPollAt({ ...job, polls: polls - stored }, { firstMs: 10_000 }, at.getTime())
          const isFurther = isPage && isNew && isUsefulPage({ pages: stored, size }, results)
          stored += Number(isFurther)
          at = isFurther && later !== null ? at : later
          expect(at === null || at.getTime() < DEADLINE_MS).toBe(true)
        }
        expect(stored).toBeLessThanOrEqual(size)
        expect(polls).toBeLessThanOrEqual(40 + stored)
      },
    ),
  )
})

test.each([
  ['no response', ''],
  ['half a response', 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"conf'],
])('%s in time is in doubt, and is waited for three times at most', async (_, bytes) => {
  const hang = (): RawAnswer => ({ bytes, end: 'hang' })
  const { call } = await createCalls(hang, { timeoutMs: 200 })
  const found: unknown[] = []
  for (let calls = 1; calls <= 3; calls++) {
    const { state, doubt } = await call(1, true)
    found.push([state, doubt])
  }
  expect(found).toEqual([
    ['pending', 1],
    ['pending', 1],
    ['failed', 1],
  ])
  const { post } = await createCalls(hang, { timeoutMs: 200 })
  // The head of a 200 without an identifier: a job may have been made.
  expect((await post(1, true)).state).toBe('in_doubt')
})

test('an answer larger than any record is read up to 16 MiB, and ends its lookup at the fifth', async () => {
  const { call } = await createCalls(() => rawStatus(200, { body: `"${'x'.repeat(17 * 1024 * 1024)}"` }))
  const states: string[] = []
  for (let calls = 1; calls <= 5; calls++) {
    states.push((await call(1, true)).state)
    await call(1 + calls, false)
  }
  expect(states).toEqual(['pending', 'pending', 'pending', 'pending', 'failed'])
})

test.each([
  ['refuses connections', async () => 'http://127.0.0.1:9'],
  ['speaks no TLS', async () => (await serveAlways(200)).baseUrl.replace('http:', 'https:')],
  ['has no address', async () => 'http://no-such-host.invalid'],
])('a service that %s is probed, costs no attempt and leaves a job unsent', async (_, url) => {
  const shared = { ...(await serveAnswers()), baseUrl: await url() }
  const { call, post, deps } = await createCalls(() => rawStatus(500), { shared })
  for (let calls = 0; calls < 10; calls++) {
    expect((await call(1, true)).state).toBe('pending')
    expect((await post(1, true)).state).toBe('submitting')
  }
  expect(deps.breaker.state).toBe('open')
})
