import fc from 'fast-check'
import pino from 'pino'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import type { CallDeps } from '../../../src/pipeline/deps.ts'
import { LeaseKeeper, LookupQueue } from '../../../src/pipeline/look-up/lookup-queue.ts'
import { lookUpBatch } from '../../../src/pipeline/look-up/look-up.ts'
import { PrioritySemaphore } from '../../../src/pipeline/look-up/slots.ts'
import { Breaker } from '../../../src/service/breaker.ts'
import type { Database } from '../../../src/store/open.ts'
import type { RunningRun } from '../../../src/store/runs.ts'
import { SteppedLeases, turn, type Step } from '../../support/stepped-leases.ts'

let store: SteppedLeases
vi.mock(import('../../../src/store/lookup-leases.ts'), async (original) => ({
  ...(await original()),
  leaseLookups: (_db, options) => store.lease(options),
  completeLookups: (_db, results, next = null) => store.complete(results, next),
  releaseLookups: (_db, lookups) =>
    store.release((id, token) => lookups.some((one) => one.id === id && one.token === token)),
  releaseByToken: (_db, token) => store.release((_id, other) => other === token),
}))
const SLOTS = 4
const log = pino({ level: 'silent' })
const db = {} as Database
const policy = { attempts: 5, bulk: { minimum: 50 } } as CallDeps['policy']
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
    { db, policy, service: 0, adapter: BUILT_IN_SERVICE, webhookUrl: null, breaker },
    run,
    leases,
    {
      capacity: () => 1_000,
      maxReady: SLOTS,
      endpoint: null,
    },
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

describe('the queue', () => {
  test('throws the error of a release, and the first one if there are more', async () => {
    const queue = createQueue(100)
    await endAll(queue.next(1))
    now += 2_000
    const next = queue.next(1)
    ;(await store.next('release')).fail(new Error('the release'))
    await expect(endAll(next)).rejects.toThrow('the release')
    await expect(endAll(queue.close(), (step) => step.fail(new Error('another')))).rejects.toThrow(
      'the release',
    )
  })
})

test('a tick throws the error of a lease, when its calls are stored and the rest is released', async () => {
  store = new SteppedLeases(100)
  const stopping = new AbortController()
  const slots = new PrioritySemaphore(SLOTS)
  const observer = { banMs: 0, sent() {}, answered() {}, lost() {}, end() {} }
  const [limiter, client] = [
    { acquire: async (count: number) => ({ count, use: () => observer, release() {} }) },
    { callsAllowedByKey: 1_000, enrichPerson: () => store.step('call', () => ({ outcome: 'not_found' })) },
  ]
  const service = { adapter: BUILT_IN_SERVICE, limiter, client, breaker: new Breaker() }
  const deps = { db, log, policy, slots, webhookUrl: null, now: () => 0, random: () => 0, ...service }
  const { signal } = stopping
  const tick = lookUpBatch(deps as unknown as CallDeps, run, { limit: () => 1_000, signal })
  let leased = 0
  const end = (step: Step): void => {
    if (step.kind === 'lease' && leased++ > 0) step.fail(new Error('the lease'), true)
    else step.commit()
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

test('whatever ends first: errors are thrown, none is called twice or without a lease, and few are in doubt', async () => {
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
        const next = await queue.next(taken).catch((error: unknown) => {
          thrown.push(error)
          return []
        })
        hasEnded ||= next.length === 0
        const uncalled = [...store.tokens.keys()].filter((id) => !called.has(id))
        expect(hasEnded && firstFailure === null ? uncalled : []).toEqual([])
        slots.release(taken - next.length)
        for (const { id, token } of next) {
          expect(store.tokens.get(id)).toBe(token)
          expect(called.has(id)).toBe(false)
          called.set(id, { token, onStored: null })
        }
      }
      const storing = new Set<Promise<void>>()
      const storeAnswers = async (): Promise<void> => {
        const answered = [...called].filter(([, { onStored }]) => onStored !== null).slice(0, 2)
        const plan = hasEnded ? null : queue.planAhead()
        const results = answered.map(([id]) => ({ id })) as never
        const since = now
        const stored = await store.complete(results, plan).catch(() => null)
        if (stored === null) return plan === null ? undefined : queue.giveUp(plan)
        for (const [id, { onStored }] of answered) if (called.delete(id)) onStored?.()
        if (plan !== null) queue.addLeased(plan, stored.leased, since)
      }
      const end = (step: Step, outcome: 'commit' | 'fail' | 'lost'): void => {
        if (outcome === 'commit' || step.kind === 'release') return step.commit()
        const error = new Error(step.kind)
        // The answers of a write that fails are written again, and what it has leased is only released.
        if (step.kind !== 'complete') firstFailure ??= error
        step.fail(error, outcome === 'lost' && step.kind !== 'complete')
      }
      const check = (): void => {
        const inDoubt = store.tokens.size
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
      expect(store.steps).toEqual([])
    }),
    { numRuns: 300 },
  )
})
