import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { createService } from '../../../src/domain/service/service.ts'
import {
  ForbiddenError,
  MalformedResponseError,
  RateLimitedError,
  ServiceError,
  UnauthorizedError,
  UnexpectedStatusError,
} from '../../../src/service/errors.ts'
import { clientOf, rejection, serve, serveAlways } from './loopback-service.ts'

const input = { email: 'secret.person@x.example' }
const bulk = { emails: [input.email], webhookUrl: 'http://127.0.0.1:1/w' }

describe('failure statuses', () => {
  test.each([301, 307])('%i is not followed', async (status) => {
    const service = await serveAlways(status, '', { location: 'http://127.0.0.1:1/else' })
    const error = await rejection(clientOf(service).enrichPerson(input), UnexpectedStatusError)
    expect(error).toMatchObject({ status, action: 'abort_run', maybeSent: true })
  })

  test('reads Retry-After from every failure, a date by the clock of the service', async () => {
    const date = 'Tue, 01 Jan 2030 00:00:00 GMT'
    const later = 'Tue, 01 Jan 2030 00:00:07 GMT'
    for (const [status, header, wait] of [
      [429, '3', 3_000],
      [503, later, 7_000],
      [500, 'soon', null],
    ] as const) {
      const service = await serveAlways(status, '', { 'retry-after': header, date })
      const error = await rejection(clientOf(service).enrichPerson(input), ServiceError)
      expect(error).toMatchObject({ status, retryAfterMs: wait })
    }
  })

  test.each<[string, Record<string, string>, string]>([
    ['a Retry-After', { 'retry-after': '2' }, ''],
    ['nothing remaining', { 'x-ratelimit-remaining': '0' }, ''],
    ['words', {}, '{"error":"Rate limit exceeded"}'],
  ])('a 403 with %s is a rate limit and rejects no key', async (_, headers, body) => {
    const service = await serveAlways(403, body, headers)
    const client = clientOf(service)
    await rejection(client.enrichPerson(input), RateLimitedError)
    expect(client.isKeyRejected).toBe(false)
  })

  test('a 403 with a remaining limit is not a rate limit', async () => {
    const service = await serveAlways(403, '', { 'x-ratelimit-remaining': '10' })
    const client = clientOf(service)
    await rejection(client.enrichPerson(input), ForbiddenError)
    await rejection(client.enrichPerson({ email: 'another@x.example' }), ForbiddenError)
    await rejection(client.enrichPerson({ email: 'third@x.example' }), UnauthorizedError)
    expect(client.isKeyRejected).toBe(true)
  })

  test.each<[string, Record<string, string>, string]>([
    ['a web page', { 'content-type': 'text/html; charset=utf-8' }, '<h1>404</h1>'],
    ['a router that knows no such route', {}, '404 page not found'],
    ['a service that knows no such endpoint', {}, '{"error":{"code":"no_such_endpoint"}}'],
    ['a framework that knows no such route', {}, '{"message":"Route POST:/v1/person/enrich not found"}'],
  ])('a 404 from %s is a missing route and not a miss', async (_, headers, body) => {
    const service = await serveAlways(404, body, headers)
    const error = await rejection(clientOf(service).enrichPerson(input), UnexpectedStatusError)
    expect(error.action).toBe('abort_run')
    expect(error.message).toContain('FILLRATE_BASE_URL')
  })

  test('a 404 page with rate-limit headers comes from the service, and is a miss', async () => {
    const service = await serveAlways(404, '<p>', { 'content-type': 'text/html', 'x-ratelimit-limit': '50' })
    expect(await clientOf(service).enrichPerson(input)).toEqual({ outcome: 'not_found' })
  })

  test('a failure is read from its status if its body is cut off', async () => {
    const service = await serve((_, response) => {
      response.writeHead(429, { 'retry-after': '4', 'content-length': '100' })
      response.write('{', () => response.destroy())
    })
    const error = await rejection(clientOf(service).enrichPerson(input), RateLimitedError)
    expect(error.retryAfterMs).toBe(4_000)
  })
})

describe('a 200 without a usable response', () => {
  test.each<[string, unknown, string]>([
    ['a web page', '<html><body>secret.person@x.example</body></html>', 'not JSON'],
    ['nothing', '', 'empty'],
    ['null', 'null', 'an empty response'],
    ['a text', '"secret.person@x.example"', 'a string instead of a person record'],
    ['half a record', '{"confidence":', 'not JSON'],
    [
      'success: false',
      { success: false, error: { code: 'upstream', message: 'timed out' } },
      'success: false',
    ],
    ['an error', { error: 'internal', email: input.email }, 'a field "error"'],
    ['brackets', '['.repeat(5_000), 'nested more than 100 levels deep'],
    ['Latin-1', Buffer.from('{"confidence":1,"title":"Rådgiver"}', 'latin1'), 'not UTF-8'],
  ])('%s', async (_, body, reason) => {
    const service = await serveAlways(200, body)
    const error = await rejection(clientOf(service).enrichPerson(input), MalformedResponseError)
    expect(error.message).toMatch(/^POST \/v1\/person\/enrich: the service answered 200 with /)
    expect(error.message).toContain(reason)
    expect(error).toMatchObject({ status: 200, action: 'retry', maybeSent: true })
    const sent = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
    expect(error.body).toEqual(Buffer.from(sent))
  })

  test('names a content encoding that was not requested', async () => {
    const service = await serveAlways(200, gzipSync('{"confidence":1}'), { 'content-encoding': 'gzip' })
    const error = await rejection(clientOf(service).enrichPerson(input), MalformedResponseError)
    expect(error.message).toContain('encoding')
  })

  test('cuts off an endless body, and keeps 64 KiB of it', async () => {
    const service = await serve((_, response) => {
      const chunk = Buffer.alloc(1024 * 1024, 'x')
      const write = (): void => {
        while (!response.destroyed && response.write(chunk));
      }
      response.on('drain', write)
      write()
    })
    const error = await rejection(clientOf(service).enrichPerson(input), MalformedResponseError)
    expect(error.message).toContain('larger than')
    expect(error.body).toHaveLength(64 * 1024)
    // Each answer to a bulk call would be lost in the same way, and is paid: the run stops.
    const definition = { path: '/bulk', size: 100, results: 'answer' } as const
    const answering = createService({ name: 'Acme', person: { path: '/' }, bulk: definition })
    const client = clientOf(service, { service: answering })
    const paid = await rejection(client.submitBulk({ ...bulk, webhookUrl: null }), UnexpectedStatusError)
    expect(paid).toMatchObject({ action: 'abort_run', status: 200 })
    expect(paid.message).toContain('lower `bulk.size`')
  })

  test('a 200 to a submission without a job', async () => {
    const service = await serveAlways(200, { ok: true })
    const error = await rejection(clientOf(service).submitBulk(bulk), MalformedResponseError)
    expect(error.message).toContain('no job identifier')
  })
})
