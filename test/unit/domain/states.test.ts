import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { backoffMs, retryDelayMs } from '../../../src/domain/backoff.ts'
import { afterDelivery, afterSubmit, isTerminalStatus, toJobId } from '../../../src/domain/job.ts'
import { afterCall, type CallEvent } from '../../../src/domain/lookup.ts'
import { afterAnswer, afterWrite } from '../../../src/domain/row.ts'
import { defaultBulkMinimum, routeLookups } from '../../../src/domain/route.ts'

const rules = { attempts: 3, refreshAfterMs: 90_000, retryNotFoundAfterMs: 30_000 }
const applyCall = (event: CallEvent, attempts = 0) => afterCall({ attempts }, event, rules, 1_000, 0.5)

describe('a lookup', () => {
  test('that found is due again after refreshAfter and keeps the record', () => {
    expect(applyCall({ type: 'found', record: { id: 1 }, confidence: 0.9 })).toMatchObject({
      state: 'found',
      record: { id: 1 },
      confidence: 0.9,
      refreshAt: new Date(91_000),
      resolvedAt: new Date(1_000),
    })
  })
  test('without a match is due after retryNotFoundAfter', () => {
    expect(applyCall({ type: 'not_found' })).toMatchObject({
      state: 'not_found',
      refreshAt: new Date(31_000),
    })
  })
  test('that was rejected is never due by itself', () => {
    expect(applyCall({ type: 'rejected', reason: 'unprocessable (422)' })).toMatchObject({
      state: 'rejected',
      refreshAt: null,
    })
  })
  test('is retried after a fault with growing delays, and failed when its attempts are used up', () => {
    const fault: CallEvent = { type: 'transient_error', reason: 'server (500)', retryAfterMs: null }
    const first = applyCall(fault, 0)
    expect(first).toMatchObject({ state: 'pending', attempts: 1 })
    expect(first.notBefore?.getTime()).toBeGreaterThan(1_000)
    expect(applyCall(fault, 2)).toMatchObject({ state: 'failed', reason: 'server (500), 3 attempts' })
  })
  test('is never retried before Retry-After', () => {
    const { notBefore } = applyCall({
      type: 'transient_error',
      reason: 'unavailable (503)',
      retryAfterMs: 60_000,
    })
    expect(notBefore?.getTime()).toBeGreaterThanOrEqual(61_000)
  })
  test('whose response was lost is unconfirmed, and retried fewer times and later', () => {
    const lost: CallEvent = {
      type: 'transient_error',
      reason: 'timeout',
      retryAfterMs: null,
      inDoubt: true,
      isLost: true,
    }
    const many = { ...rules, attempts: 5 }
    const first = afterCall({ attempts: 0 }, lost, many, 0, 0.999)
    expect(first).toMatchObject({ state: 'pending', attempts: 1, unconfirmedCalls: 1 })
    expect(first.notBefore?.getTime()).toBeGreaterThan(29_000)
    const second = afterCall({ attempts: 1 }, lost, many, 0, 0.999)
    expect(second.notBefore?.getTime()).toBeGreaterThan(29 * 60_000)
    expect(afterCall({ attempts: 2 }, lost, many, 0, 0)).toMatchObject({
      state: 'failed',
      reason: 'timeout, 3 attempts',
      unconfirmedCalls: 1,
    })
  })
  test('without a connection has made no attempt and is retried within a second', () => {
    const next = afterCall({ attempts: 2 }, { type: 'not_sent', reason: 'connection' }, rules, 0, 0.999)
    expect(next).toMatchObject({ state: 'pending', attempts: 2 })
    expect(next.notBefore?.getTime()).toBeLessThanOrEqual(1_000)
  })
  test('is not failed by a service that fails every call', () => {
    const down: CallEvent = {
      type: 'transient_error',
      reason: 'server (500)',
      retryAfterMs: null,
      attempts: 0,
      tries: 9,
      isDown: true,
    }
    expect(applyCall(down)).toMatchObject({ state: 'pending', attempts: 0 })
  })
  test('is released without an attempt if nothing was decided', () => {
    expect(
      applyCall({ type: 'released', reason: 'rate limited (429)', retryAfterMs: null }, 2),
    ).toMatchObject({
      state: 'pending',
      attempts: 2,
      notBefore: null,
    })
  })
})

describe('a job', () => {
  const submit = (event: Parameters<typeof afterSubmit>[1], attempts = 1) =>
    afterSubmit({ attempts }, event, { attempts: 3 }, 1_000, 0.5)
  test('that was accepted waits for its delivery', () => {
    expect(submit({ type: 'accepted', jobId: 'j', requestIds: null })).toMatchObject({
      state: 'submitted',
      jobId: 'j',
    })
  })
  test('that was not accepted is submitted again, and finally given up', () => {
    const event = {
      type: 'not_accepted',
      reason: 'unavailable (503)',
      retryAfterMs: null,
      countsAsAttempt: true,
      mayBeBilled: false,
    } as const
    expect(submit(event)).toMatchObject({ state: 'submitting', attempts: 2 })
    expect(submit(event, 3)).toMatchObject({ state: 'rejected', finishedAt: new Date(1_000) })
    expect(submit({ ...event, countsAsAttempt: false }, 3)).toMatchObject({
      state: 'submitting',
      attempts: 3,
    })
  })
  test('reports how many of its inputs have no result', () => {
    expect(afterDelivery('completed', 0)).toEqual({ state: 'completed', reason: null })
    expect(afterDelivery('failed', 3).reason).toContain('3 inputs without a result')
    expect(afterDelivery('failed', 0).state).toBe('failed')
  })
  test('is not ended by a status that is not terminal, but by its last result', () => {
    expect(['completed', 'failed', 'processing', null].map(isTerminalStatus)).toEqual([
      true,
      true,
      false,
      false,
    ])
    expect(afterDelivery(null, 3)).toEqual({ state: null, reason: null })
    expect(afterDelivery(null, 0)).toEqual({ state: 'completed', reason: null })
  })
  test('has an identifier that fits an index, whatever the service sends', () => {
    expect(toJobId(42)).toBe('42')
    expect(toJobId('x'.repeat(512))).toBe('x'.repeat(512))
    expect(toJobId('é'.repeat(6_000))).toMatch(/^sha256:[0-9a-f]{64}$/)
    expect(toJobId('é'.repeat(6_000))).not.toBe(toJobId('é'.repeat(6_001)))
  })
})

describe('a row', () => {
  const lookup = { state: 'found', reason: null, confidence: 0.6 } as const
  test('below its confidence is not written', () => {
    expect(afterAnswer(lookup, 0.7)?.state).toBe('below_confidence')
    expect(afterAnswer(lookup, 0.6)).toBeNull()
    expect(afterAnswer({ ...lookup, confidence: null }, 0.7)).toBeNull()
  })
  test('whose inputs changed before the write is picked again', () => {
    expect(afterWrite('inputs_changed', null)).toBeNull()
    expect(afterWrite('row_missing', null)?.state).toBe('unchanged')
  })
})

test('backoff grows, is jittered, bounded, and never shorter than Retry-After', () => {
  fc.assert(
    fc.property(
      fc.nat(40),
      fc.option(fc.nat(1_000_000)),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (attempts, floor, random) => {
        const ms = backoffMs(attempts, floor, random)
        expect(ms).toBeGreaterThanOrEqual(Math.max(100, floor ?? 0))
        expect(ms).toBeLessThanOrEqual(Math.max(300_000, floor ?? 0))
      },
    ),
  )
})

test('the attempts of a lookup are spread: up to 1 s, 30 s, 5 min, then 30 min, with full jitter above Retry-After', () => {
  const at = (tries: number, random: number, retryAfterMs: number | null = null) =>
    retryDelayMs(tries, { retryAfterMs, random })
  expect([1, 2, 3, 4, 5, 9].map((tries) => at(tries, 1))).toEqual([
    1_000, 30_000, 300_000, 1_800_000, 1_800_000, 1_800_000,
  ])
  expect([1, 2, 3, 4].map((tries) => at(tries, 0))).toEqual([100, 100, 100, 100])
  expect(at(4, 0.5)).toBe(900_050)
  expect(at(1, 0.5, 7_000)).toBe(7_000)
})

describe('lookups that may go in bulk are requested', () => {
  const at = { option: 'auto', bulkPossible: true, picking: false, minimum: 50, size: 100 } as const
  test('in bulk from the minimum, and singly if fewer are left', () => {
    expect(routeLookups(at)).toEqual({ bulkFrom: 50, singly: 'when_fewer' })
  })
  test('only in full jobs while rows are being picked', () => {
    expect(routeLookups({ ...at, picking: true })).toEqual({ bulkFrom: 100, singly: 'never' })
  })
  test('singly if deliveries are impossible, or if the option is sync', () => {
    expect(routeLookups({ ...at, bulkPossible: false })).toEqual({ bulkFrom: null, singly: 'now' })
    expect(routeLookups({ ...at, option: 'sync' })).toEqual({ bulkFrom: null, singly: 'now' })
  })
  test('in bulk however few, if the option is bulk', () => {
    expect(routeLookups({ ...at, option: 'bulk' })).toEqual({ bulkFrom: 1, singly: 'never' })
  })
  test('in jobs of the size that the service takes', () => {
    const picking = { ...at, picking: true }
    expect(routeLookups({ ...picking, minimum: 5, size: 10 }).bulkFrom).toBe(10)
    expect(routeLookups({ ...picking, minimum: 50, size: 10 }).bulkFrom).toBe(50)
    expect(routeLookups({ ...picking, minimum: 50, size: 1_000 }).bulkFrom).toBe(1_000)
  })
  test('in bulk from half a job on by default, and from two where the results are in the answer', () => {
    expect(defaultBulkMinimum({ size: 100, results: 'webhook' })).toBe(50)
    expect(defaultBulkMinimum({ size: 1_000, results: 'webhook' })).toBe(50)
    expect(defaultBulkMinimum({ size: 25, results: 'webhook' })).toBe(13)
    expect(defaultBulkMinimum({ size: 10, results: 'answer' })).toBe(2)
  })
})
