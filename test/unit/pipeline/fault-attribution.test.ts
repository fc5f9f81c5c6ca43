import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { afterCall } from '../../../src/domain/lookup.ts'
import { callService } from '../../../src/pipeline/look-up/call-service.ts'
import { createBreaker } from '../../../src/service/breaker.ts'
import type { LeasedLookup } from '../../../src/store/lookup-leases.ts'
import { clientOf, serve } from '../service/loopback-service.ts'

const RULES = { refreshAfterMs: 1, retryNotFoundAfterMs: 1, attempts: 5 }
const log = { debug: () => {} } as never
const observer = { isBan: false, sent() {}, answered() {}, lost() {}, end() {} }

type Answer = () => { status: number; type?: string; body?: string }

/** A service that answers inputs that begin with `odd` as set, and every other one with a miss. */
async function serveAnswers() {
  const set: { answer: Answer } = { answer: () => ({ status: 500 }) }
  const service = await serve(({ body }, response) => {
    const { email } = JSON.parse(body) as { email: string }
    const { status, type, body: text } = email.startsWith('odd') ? set.answer() : { status: 404, body: '{}' }
    response.writeHead(status, type === undefined ? {} : { 'content-type': type })
    response.end(text)
  })
  return { ...service, set }
}

/** Calls through a new client and breaker, as a run does. */
async function lookUps(answer: Answer, shared?: Awaited<ReturnType<typeof serveAnswers>>) {
  const service = shared ?? (await serveAnswers())
  service.set.answer = answer
  const deps = { client: clientOf(service), breaker: createBreaker(), log }
  const attempts = new Map<number, number>()
  return {
    async call(id: number, isOdd: boolean) {
      const lookup = {
        id,
        token: '',
        kind: 'email',
        input: { email: `${isOdd ? 'odd' : 'fine'}${id}@x.example` },
        attempts: attempts.get(id) ?? 0,
      } as unknown as LeasedLookup
      const outcome = await callService(deps, lookup, observer as never, new AbortController().signal)
      if (outcome.event === null) return { state: 'accepted', stop: null, attempts: 0 }
      const fields = afterCall(lookup, outcome.event, RULES, 0, 0)
      attempts.set(id, fields.attempts)
      return { state: fields.state as string, stop: outcome.stop, attempts: fields.attempts }
    },
  }
}

/** A 1xx is no final answer: Node sends none as such, and undici reports none. */
const STATUSES = Array.from({ length: 400 }, (_, i) => i + 200)

/** What one input comes to whose every answer has this status, while all others are answered. */
function expected(status: number): string {
  if (status === 401) return 'stopped'
  if (status === 429) return 'released'
  if (status === 202) return 'accepted'
  if (status === 403 || status === 400 || status === 422) return 'rejected'
  if (status === 404) return 'not_found'
  if (status === 402 || status === 405) return 'failed'
  if (status >= 400 && status < 500 && status !== 408 && status !== 425) return 'rejected'
  return 'failed'
}

describe('an answer to one input, while others are answered', () => {
  test('ends its lookup within five calls and stops no other, whatever its status from 200 to 599', async () => {
    const found: Record<number, string> = {}
    const service = await serveAnswers()
    for (const status of STATUSES) {
      const { call } = await lookUps(() => ({ status }), service)
      let state = 'pending'
      let calls = 0
      while (state === 'pending' && calls < 6) {
        const odd = await call(1, true)
        calls++
        state = odd.stop === null ? odd.state : 'stopped'
        if (state === 'pending') await call(2 + calls, false)
      }
      found[status] = state === 'pending' && calls === 6 ? 'released' : state
    }
    expect(found).toEqual(Object.fromEntries(STATUSES.map((one) => [one, expected(one)])))
  })

  test.for([
    { status: 404, type: 'text/html', body: '<html>gone</html>' },
    { status: 404, body: 'page not found' },
    { status: 301 },
    { status: 405 },
    { status: 402 },
  ])('does not stop the run even if it comes first: $status $body', async (answer) => {
    const { call } = await lookUps(() => answer)
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

describe('an answer to all inputs that says that a setting is wrong', () => {
  test('stops the run: at the third input, at an only input the second time, later at the tenth', async () => {
    const wrong = { status: 301 }
    const first = await lookUps(() => wrong)
    const stops: boolean[] = []
    for (let id = 1; id <= 3; id++) stops.push((await first.call(id, true)).stop !== null)
    expect(stops).toEqual([false, false, true])

    const alone = await lookUps(() => wrong)
    expect((await alone.call(1, true)).stop).toBeNull()
    expect((await alone.call(1, true)).stop).toMatchObject({ status: 301, action: 'abort_run' })

    const later = await lookUps(() => wrong)
    await later.call(0, false)
    const moved: boolean[] = []
    for (let id = 1; id <= 10; id++) moved.push((await later.call(id, true)).stop !== null)
    expect(moved).toEqual([...Array.from({ length: 9 }, () => false), true])
  })
})

test('every sequence of answers ends a lookup in at most five calls that others are answered between', async () => {
  const service = await serveAnswers()
  const retried = fc.constantFrom(200, 204, 301, 402, 405, 408, 425, 500, 502, 503, 504)
  await fc.assert(
    fc.asyncProperty(fc.array(retried, { minLength: 5, maxLength: 5 }), async (statuses) => {
      let next = 0
      const { call } = await lookUps(() => ({ status: statuses[next++] ?? 500 }), service)
      let state = 'pending'
      for (let calls = 1; state === 'pending' && calls <= 5; calls++) {
        state = (await call(1, true)).state
        await call(1 + calls, false)
      }
      expect(state).toBe('failed')
    }),
    { numRuns: 30 },
  )
})
