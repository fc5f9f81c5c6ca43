import fc from 'fast-check'
import pino from 'pino'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import type { CallDeps } from '../../../src/pipeline/deps.ts'
import { LeaseKeeper } from '../../../src/pipeline/look-up/lease-keeper.ts'
import { lookUpBatch } from '../../../src/pipeline/look-up/look-up.ts'
import { LookupQueue } from '../../../src/pipeline/look-up/lookup-queue.ts'
import { PrioritySemaphore } from '../../../src/pipeline/look-up/slots.ts'
import { createBreaker } from '../../../src/service/breaker.ts'
import type { LeasedLookup } from '../../../src/store/lookup-leases.ts'
import type { Database } from '../../../src/store/open.ts'
import type { RunningRun } from '../../../src/store/runs.ts'
import { SteppedLeases, turn, type Step } from '../../support/stepped-leases.ts'

let store: SteppedLeases
vi.mock(import('../../../src/store/lookup-leases.ts'), async (original) => ({
  ...(await original()),
  leaseLookups: (_db, options) => store.lease(options),
  markInFlight: (_db, lookups) => store.mark(lookups),
  completeLookups: (_db, results, next = []) => store.complete(results, next),
  releaseLookups: (_db, lookups) =>
    store.release((id, token) => lookups.some((one) => one.id === id && one.token === token)),
  releaseByToken: (_db, token) => store.release((_id, other) => other === token),
}))
// A slot that has waited long enough for others' marks is one more thing that ends when a test says so.
vi.mock(import('node:timers/promises'), async (original) => ({
  ...(await original()),
  setTimeout: (_ms?: number, value?: unknown) => store.step('late', () => value) as Promise<never>,
}))

const SLOTS = 4
const log = pino({ level: 'silent' })
const db = {} as Database
const policy = { attempts: 5, bulkMinimum: 50 } as CallDeps['policy']
const run = { id: 1, trigger: 'manual', options: { route: 'sync' } } as RunningRun

let now = 0
let leases: LeaseKeeper
beforeEach(() => {
  now = 0
  vi.spyOn(performance, 'now').mockImplementation(() => now)
  leases = new LeaseKeeper({ db, log })
})
afterEach(() => {
  leases.stop()
  vi.restoreAllMocks()
})

function createQueue(lookups: number): LookupQueue {
  store = new SteppedLeases(lookups)
  const breaker = { state: 'closed' } as const
  return new LookupQueue(
    { db, policy, adapter: BUILT_IN_SERVICE, webhookUrl: null, breaker },
    run,
    leases,
    () => 1_000,
    SLOTS,
  )
}

async function isPending(promise: Promise<unknown>): Promise<boolean> {
  let isSettled = false
  const settle = (): void => {
    isSettled = true
  }
  promise.then(settle, settle)
  for (let turns = 0; turns < 5; turns++) await turn()
  return !isSettled
}

/** Ends everything that begins, until `promise` is settled. */
async function endAll<T>(promise: Promise<T>, end = (step: Step): void => step.commit()): Promise<T> {
  while (await isPending(promise)) for (const step of store.steps) end(step)
  return promise
}

/** Leases, and calls all that are marked with it. */
async function begin(queue: LookupQueue): Promise<LeasedLookup[]> {
  const called = [...(await endAll(queue.markNext(1)))]
  while (store.inDoubt.length > called.length) called.push(...(await queue.markNext(1)))
  return called
}

/** Has one lookup marked with an answer, which serves a slot while its own mark is under way. */
async function serveBeforeOwnMark(queue: LookupQueue): Promise<Step> {
  await begin(queue)
  // Up to a pace at which one is wanted ahead.
  let ahead: LeasedLookup[] = []
  for (now = 1_990; ahead.length === 0; now -= 10) ahead = queue.takeAhead()
  const next = queue.markNext(SLOTS)
  const mark = await store.next('mark')
  const marking = store.mark(ahead)
  store.steps.at(-1)?.commit()
  queue.addReady(ahead, await marking)
  expect(await next).toEqual(ahead)
  return mark
}

describe('the queue', () => {
  test('throws the error of a mark for which no slot waits any more', async () => {
    const queue = createQueue(100)
    const mark = await serveBeforeOwnMark(queue)
    mark.fail(new Error('the mark'))
    await expect(endAll(queue.close())).rejects.toThrow('the mark')
  })

  test('throws the error of a lease ahead, and the first one if there are more', async () => {
    const queue = createQueue(100)
    await begin(queue)
    queue.takeAhead()
    const lease = await store.next('lease')
    const closing = queue.close()
    lease.fail(new Error('the lease'))
    ;(await store.next('release')).fail(new Error('the release'))
    await expect(endAll(closing)).rejects.toThrow('the lease')
  })

  test('releases what could not be marked, also if only the result of the mark was lost', async () => {
    const queue = createQueue(100)
    const mark = await serveBeforeOwnMark(queue)
    const inDoubt = store.inDoubt.length
    mark.fail(new Error('the mark'), true)
    await expect(endAll(queue.markNext(SLOTS))).rejects.toThrow('the mark')
    await expect(endAll(queue.close())).rejects.toThrow('the mark')
    expect(store.inDoubt).toHaveLength(inDoubt)
    expect(store.tokens.size).toBe(inDoubt)
  })

  test('is closed when no lease and no mark is under way, and what they brought is released', async () => {
    const queue = createQueue(100)
    const mark = await serveBeforeOwnMark(queue)
    const called = store.inDoubt.length
    now = 0
    const ahead = queue.takeAhead()
    const lease = await store.next('lease')
    const closing = Promise.all([queue.giveBack(ahead), queue.close()])
    expect(await isPending(closing)).toBe(true)
    mark.commit()
    expect(await isPending(closing)).toBe(true)
    lease.commit()
    await endAll(closing)
    expect(store.tokens.size).toBe(called)
  })

  test('has nothing more only when nothing is being marked', async () => {
    const queue = createQueue(5)
    await begin(queue)
    const ahead = queue.takeAhead()
    const next = queue.markNext(1)
    for (let times = 0; times < 10; times++) {
      expect(await isPending(next)).toBe(true)
      for (const step of store.steps) step.commit()
    }
    const marking = store.mark(ahead)
    store.steps.at(-1)?.commit()
    queue.addReady(ahead, await marking)
    expect(await next).toEqual(ahead.slice(0, 1))
    await endAll(queue.close())
  })
})

test('a tick throws the error of a lease ahead, when its calls are stored and the rest is released', async () => {
  store = new SteppedLeases(100)
  const stopping = new AbortController()
  const slots = new PrioritySemaphore(SLOTS)
  const observer = { banMs: 0, sent() {}, answered() {}, lost() {}, end() {} }
  const [limiter, client] = [
    { acquire: async (count: number) => ({ count, use: () => observer, release() {} }) },
    { callsAllowedByKeys: 1_000, enrichPerson: () => store.step('call', () => ({ outcome: 'not_found' })) },
  ]
  const service = { adapter: BUILT_IN_SERVICE, limiter, client, breaker: createBreaker() }
  const deps = { db, log, policy, slots, webhookUrl: null, now: () => 0, random: () => 0, ...service }
  const { signal } = stopping
  const tick = lookUpBatch(deps as unknown as CallDeps, run, { limit: () => 1_000, signal })
  const end = (step: Step): void => {
    if (step.kind !== 'lease' || store.tokens.size === 0) return step.commit()
    // It ends last: no call takes what it leases.
    stopping.abort()
    if (store.steps.every(({ kind }) => kind === 'lease')) step.fail(new Error('the lease'), true)
  }
  await expect(endAll(tick, end)).rejects.toThrow('the lease')
  expect(store.tokens.size).toBe(0)
  expect(slots.free('normal')).toBe(SLOTS)
})

/** What happens next, of what may: a choice by number, so that a failing sequence can be shortened. */
const events = fc.array(
  fc.record({
    event: fc.nat(99),
    outcome: fc.constantFrom(...Array<'commit'>(12).fill('commit'), 'fail' as const, 'lost' as const),
  }),
  { minLength: 20, maxLength: 150 },
)

test('whatever ends first: errors are thrown, none is called twice or unmarked, and few are in doubt', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 60 }), events, async (lookups, sequence) => {
      now = 0
      const queue = createQueue(lookups)
      const slots = new PrioritySemaphore(SLOTS)
      const called = new Map<number, { readonly token: string; onStored: (() => void) | null }>()
      const thrown: unknown[] = []
      let firstFailure: Error | null = null
      let taking: Promise<void> | null = null
      let hasEnded = false
      const take = async (): Promise<void> => {
        const taken = slots.take(SLOTS, 'normal')
        if (taken === 0) return
        const next = await queue.markNext(taken).catch((error: unknown) => {
          thrown.push(error)
          return []
        })
        hasEnded ||= next.length === 0
        const uncalled = [...store.tokens.keys()].filter((id) => !called.has(id))
        expect(hasEnded && firstFailure === null ? uncalled : []).toEqual([])
        slots.release(taken - next.length)
        const inDoubt = new Set(store.inDoubt)
        for (const { id, token } of next) {
          expect(inDoubt.has(id)).toBe(true)
          expect(store.tokens.get(id)).toBe(token)
          expect(called.has(id)).toBe(false)
          called.set(id, { token, onStored: null })
        }
      }
      const storing = new Set<Promise<void>>()
      const storeAnswers = async (): Promise<void> => {
        const answered = [...called].filter(([, { onStored }]) => onStored !== null).slice(0, 2)
        const next = hasEnded ? [] : queue.takeAhead()
        const results = answered.map(([id]) => ({ id })) as never
        const stored = await store.complete(results, next).catch(() => null)
        if (stored === null) return queue.giveBack(next)
        for (const [id, { onStored }] of answered) if (called.delete(id)) onStored?.()
        queue.addReady(next, stored.started)
      }
      const end = (step: Step, outcome: 'commit' | 'fail' | 'lost'): void => {
        if (outcome === 'commit' || step.kind === 'late' || step.kind === 'release') return step.commit()
        const error = new Error(step.kind)
        // The answers of a write that fails are written again, and its lookups are only given back.
        if (step.kind !== 'complete') firstFailure ??= error
        step.fail(error, outcome === 'lost' && step.kind !== 'complete')
      }
      const check = (): void => {
        const inDoubt = store.inDoubt.length
        expect(inDoubt - [...called.keys()].filter((id) => store.tokens.has(id)).length).toBeLessThanOrEqual(
          SLOTS,
        )
        expect(inDoubt).toBeLessThanOrEqual(3 * SLOTS)
      }
      for (const { event, outcome } of sequence) {
        const waiting = [...called.values()].filter(({ onStored }) => onStored === null)
        const choices: (() => void)[] = [
          ...store.steps.map((step) => (): void => end(step, outcome)),
          ...waiting.slice(0, 2).map((call) => (): void => {
            call.onStored = slots.onAnswer(0)
          }),
          () => {
            now += 100 * (event % 7)
          },
        ]
        if (!hasEnded && taking === null) choices.push(() => (taking = take().finally(() => (taking = null))))
        if (storing.size < 2 && called.size > waiting.length)
          choices.push(() => {
            const task = storeAnswers().finally(() => storing.delete(task))
            storing.add(task)
          })
        choices[event % choices.length]?.()
        for (let turns = 0; turns < 3; turns++) await turn()
        check()
      }
      // As a tick ends: when its calls are stored.
      await endAll(Promise.all([taking, ...storing]))
      await endAll(queue.close()).catch((error: unknown) => thrown.push(error))
      expect(thrown.every((error) => error === firstFailure)).toBe(true)
      expect(thrown.length > 0).toBe(firstFailure !== null)
      expect([...store.tokens.keys()].filter((id) => !called.has(id))).toEqual([])
      expect(store.steps.filter(({ kind }) => kind !== 'late')).toEqual([])
    }),
    { numRuns: 300 },
  )
})
