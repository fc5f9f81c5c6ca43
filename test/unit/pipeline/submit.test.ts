import { expect, test } from 'vitest'
import { classifySubmitError, submitLeaseMs } from '../../../src/pipeline/submit.ts'
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

const sent = { endpoint, maybeSent: true }
const unsent = { endpoint, maybeSent: false }
const server = (status: number) => new ServerError('broken', { endpoint, status })
const refusedKey = new UnauthorizedError('no', { endpoint, status: 401, keyId: 'k' })

const IN_DOUBT = { type: 'unconfirmed' }
const again = (countsAsAttempt: boolean) => ({ type: 'not_accepted', countsAsAttempt })

test.each<[why: string, error: Error, expected: object, isOutage?: boolean]>([
  ['may have arrived without a response', new TimeoutError('too long', { endpoint }), IN_DOUBT],
  ['was sent on a connection that is lost', new ConnectionError('lost', sent), IN_DOUBT],
  // Even if the run must stop.
  [
    'has an answer that cannot be read',
    new UnexpectedStatusError('too large', { endpoint, status: 200, action: 'abort_run' }),
    IN_DOUBT,
  ],
  ...[502, 504, 520, 524, 599].map(
    (status) =>
      [`was answered by a gateway with ${status}`, server(status), IN_DOUBT] as [string, Error, object],
  ),
  ['was aborted after it was sent', new AbortedError('stop', sent), IN_DOUBT],
  ['was aborted before it was sent', new AbortedError('stop', unsent), { type: 'not_accepted' }],
  // Posted again, as the interface says.
  ['was answered with a 500', server(500), { ...again(true), mayBeBilled: true }],
  ['was answered with a 503', server(503), { ...again(true), mayBeBilled: false }],
  ['was answered with a 500 in an outage', server(500), again(false), true],
  ['was not sent', new ConnectionError('refused', unsent), again(true)],
  ['was refused by the limit', new RateLimitedError('slow down', { endpoint, status: 429 }), again(false)],
  ['was not made by an open circuit', new CircuitOpenError('not sent', unsent), again(false)],
  ['was refused for its key', refusedKey, { type: 'rejected' }],
  [
    'cannot be read by the service',
    new BadRequestError('no', { endpoint, status: 400 }),
    { type: 'rejected' },
  ],
])('a failed bulk call that %s', (_, error, expected, isOutage) => {
  expect(classifySubmitError(error as never, isOutage)).toMatchObject(expected)
})

test('a submission lease outlasts its call and those that its slot makes before it', () => {
  const timeoutMs = 10 * 60_000
  expect(submitLeaseMs(10, 10, timeoutMs)).toBeGreaterThan(timeoutMs)
  expect(submitLeaseMs(10, 3, timeoutMs)).toBeGreaterThan(4 * timeoutMs)
})
