import { describe, expect, test } from 'vitest'
import { submitLeaseMs } from '../../../src/pipeline/submit.ts'
import { classifySubmitError } from '../../../src/pipeline/submit.ts'
import {
  AbortedError,
  BadRequestError,
  CircuitOpenError,
  ConnectionError,
  RateLimitedError,
  ServerError,
  TimeoutError,
  UnauthorizedError,
  UnexpectedStatusError,
} from '../../../src/service/errors.ts'

const endpoint = 'POST /v1/person/bulk'

describe('a failed bulk call', () => {
  test('is in doubt if it may have arrived without a response', () => {
    expect(classifySubmitError(new TimeoutError('too long', { endpoint }))).toMatchObject({
      type: 'unconfirmed',
    })
    expect(classifySubmitError(new ConnectionError('lost', { endpoint, maybeSent: true }))).toMatchObject({
      type: 'unconfirmed',
    })
  })
  test('is in doubt if its answer arrived and cannot be read, even if the run must stop', () => {
    const tooLarge = new UnexpectedStatusError('too large', { endpoint, status: 200, action: 'abort_run' })
    expect(classifySubmitError(tooLarge)).toMatchObject({ type: 'unconfirmed' })
  })
  test.each([502, 504, 520, 524, 599])('is in doubt if a gateway answered: %i', (status) => {
    expect(classifySubmitError(new ServerError('broken', { endpoint, status }))).toMatchObject({
      type: 'unconfirmed',
    })
  })
  test('is in doubt if it was aborted after it was sent', () => {
    expect(classifySubmitError(new AbortedError('stop', { endpoint, maybeSent: true }))).toMatchObject({
      type: 'unconfirmed',
    })
    expect(classifySubmitError(new AbortedError('stop', { endpoint, maybeSent: false }))).toMatchObject({
      type: 'not_accepted',
    })
  })
  test('is posted again after a 500, as the interface says, and counted as possibly billed', () => {
    const failure = (status: number) => classifySubmitError(new ServerError('broken', { endpoint, status }))
    expect(failure(500)).toMatchObject({ type: 'not_accepted', mayBeBilled: true })
    expect(failure(503)).toMatchObject({ type: 'not_accepted', mayBeBilled: false })
  })
  test('is posted again if it certainly was not accepted', () => {
    expect(classifySubmitError(new ConnectionError('refused', { endpoint, maybeSent: false }))).toMatchObject(
      {
        type: 'not_accepted',
        countsAsAttempt: true,
      },
    )
    expect(classifySubmitError(new ServerError('broken', { endpoint, status: 500 }))).toMatchObject({
      type: 'not_accepted',
      countsAsAttempt: true,
    })
    expect(classifySubmitError(new RateLimitedError('slow down', { endpoint, status: 429 }))).toMatchObject({
      type: 'not_accepted',
      countsAsAttempt: false,
    })
    expect(
      classifySubmitError(new CircuitOpenError('not sent', { endpoint, maybeSent: false })),
    ).toMatchObject({
      type: 'not_accepted',
      countsAsAttempt: false,
    })
  })
  test('uses up no attempt of the job during an outage', () => {
    const failed = new ServerError('broken', { endpoint, status: 500 })
    expect(classifySubmitError(failed, true)).toMatchObject({ type: 'not_accepted', countsAsAttempt: false })
  })
  test('is rejected if the service rejects it', () => {
    expect(classifySubmitError(new BadRequestError('unreadable', { endpoint, status: 400 }))).toMatchObject({
      type: 'rejected',
    })
    const context = { endpoint, status: 401, keyId: 'k' }
    expect(classifySubmitError(new UnauthorizedError('no', { ...context, hasNextKey: false }))).toMatchObject(
      {
        type: 'rejected',
      },
    )
    expect(classifySubmitError(new UnauthorizedError('no', { ...context, hasNextKey: true }))).toMatchObject({
      type: 'not_accepted',
      countsAsAttempt: false,
    })
  })
})

test('a submission lease outlasts its call and those that its slot makes before it', () => {
  const timeoutMs = 10 * 60_000
  expect(submitLeaseMs(10, 10, timeoutMs)).toBeGreaterThan(timeoutMs)
  expect(submitLeaseMs(10, 3, timeoutMs)).toBeGreaterThan(4 * timeoutMs)
})
