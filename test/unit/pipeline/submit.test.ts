import { describe, expect, test } from 'vitest'
import { afterFailure } from '../../../src/pipeline/submit/submit.ts'
import {
  BadRequestError,
  CircuitOpenError,
  ConnectionError,
  RateLimitedError,
  ServerError,
  TimeoutError,
  UnauthorizedError,
} from '../../../src/service/errors.ts'

const endpoint = 'POST /v1/person/bulk'

describe('a bulk call that failed', () => {
  test('is in doubt where it may have arrived and nobody answered', () => {
    expect(afterFailure(new TimeoutError('too long', { endpoint }))).toMatchObject({ type: 'unknown' })
    expect(afterFailure(new ConnectionError('lost', { endpoint, maybeSent: true }))).toMatchObject({
      type: 'unknown',
    })
  })
  test('is posted again where it certainly was not taken', () => {
    expect(afterFailure(new ConnectionError('refused', { endpoint, maybeSent: false }))).toMatchObject({
      type: 'not_taken',
      counts: true,
    })
    expect(afterFailure(new ServerError('broken', { endpoint, status: 500 }))).toMatchObject({
      type: 'not_taken',
      counts: true,
    })
    expect(afterFailure(new RateLimitedError('slow down', { endpoint, status: 429 }))).toMatchObject({
      type: 'not_taken',
      counts: false,
    })
    expect(afterFailure(new CircuitOpenError('not sent', { endpoint, maybeSent: false }))).toMatchObject({
      type: 'not_taken',
      counts: false,
    })
  })
  test('uses up no attempt of the job while the service is down', () => {
    const failed = new ServerError('broken', { endpoint, status: 500 })
    expect(afterFailure(failed, true)).toMatchObject({ type: 'not_taken', counts: false })
  })
  test('is rejected where the service will not have it', () => {
    expect(afterFailure(new BadRequestError('unreadable', { endpoint, status: 400 }))).toMatchObject({
      type: 'rejected',
    })
    const refused = { endpoint, status: 401, keyId: 'k' }
    expect(afterFailure(new UnauthorizedError('no', { ...refused, hasNextKey: false }))).toMatchObject({
      type: 'rejected',
    })
    expect(afterFailure(new UnauthorizedError('no', { ...refused, hasNextKey: true }))).toMatchObject({
      type: 'not_taken',
      counts: false,
    })
  })
})
