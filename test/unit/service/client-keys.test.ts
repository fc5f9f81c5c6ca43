import { describe, expect, test } from 'vitest'
import { ForbiddenError, KeyOnTrialError, UnauthorizedError } from '../../../src/service/errors.ts'
import { toKeyId } from '../../../src/service/api-keys.ts'
import { clientOf, recordingObserver, rejection, serve } from './loopback-service.ts'

const input = { email: 'a@x.example' }

/** A service that accepts some keys and answers 404. */
const serveKeys = (valid: ReadonlySet<string>) =>
  serve(({ headers }, response) => {
    const key = headers.authorization?.replace('Bearer ', '') ?? ''
    response.writeHead(valid.has(key) ? 404 : 401).end()
  })

test('after a rejected call none is sent until the key is reset', async () => {
  const valid = new Set<string>()
  const service = await serveKeys(valid)
  const client = clientOf(service, { apiKey: 'only' })
  const observer = recordingObserver()
  const rejected = await rejection(client.enrichPerson(input, { observer }), UnauthorizedError)
  expect(rejected).toMatchObject({
    status: 401,
    action: 'abort_run',
    maybeSent: true,
    keyId: toKeyId('only'),
  })
  expect(rejected.message).toMatch(/the service rejected the API key [0-9a-f]{8} \(HTTP 401\)$/)
  expect(observer.events).toEqual(['sent', 'answered 401'])
  expect(client.isKeyRejected).toBe(true)

  const unsent = await rejection(client.enrichPerson(input), UnauthorizedError)
  expect(unsent).toMatchObject({ status: null, maybeSent: false })
  expect(service.received).toHaveLength(1)

  valid.add('only')
  client.resetKey()
  expect(await client.enrichPerson(input)).toEqual({ outcome: 'not_found' })
})

describe('a rejected key that is tried again', () => {
  test('is not accepted by the answer to a call that was sent before it was rejected', async () => {
    const revoked = Promise.withResolvers<void>()
    let calls = 0
    const service = await serve(async (_, response) => {
      const isFirst = ++calls === 1
      if (isFirst) await revoked.promise
      response.writeHead(isFirst || calls > 2 ? 404 : 401).end()
    })
    const client = clientOf(service, { apiKey: 'only' })
    const before = client.enrichPerson(input)
    await expect.poll(() => calls).toBe(1)
    await rejection(client.enrichPerson(input), UnauthorizedError)
    revoked.resolve()
    expect(await before).toEqual({ outcome: 'not_found' })
    expect(client.isKeyRejected).toBe(true)
    client.resetKey()
    await client.enrichPerson(input)
    expect(client.callsAllowedByKey).toBe(Number.POSITIVE_INFINITY)
  })

  test('is tried one call at a time until it is accepted', async () => {
    const valid = new Set<string>()
    const service = await serveKeys(valid)
    const client = clientOf(service, { apiKey: 'only' })
    await rejection(client.enrichPerson(input), UnauthorizedError)
    expect(client.callsAllowedByKey).toBe(0)
    for (let again = 0; again < 3; again++) {
      client.resetKey()
      expect(client.callsAllowedByKey).toBe(1)
      const first = client.enrichPerson(input)
      expect(client.callsAllowedByKey).toBe(0)
      expect(await rejection(client.enrichPerson(input), KeyOnTrialError)).toMatchObject({
        action: 'release',
        maybeSent: false,
      })
      await rejection(first, UnauthorizedError)
    }
    expect(service.received).toHaveLength(4)
    valid.add('only')
    client.resetKey()
    await client.enrichPerson(input)
    await client.enrichPerson(input)
    expect(client.callsAllowedByKey).toBe(Number.POSITIVE_INFINITY)
  })

  test('is rejected again by a single 403', async () => {
    const service = await serve((_, response) => response.writeHead(403).end())
    const client = clientOf(service)
    await rejection(client.enrichPerson(input), ForbiddenError)
    await rejection(client.enrichPerson({ email: 'b@x.example' }), ForbiddenError)
    await rejection(client.enrichPerson({ email: 'c@x.example' }), UnauthorizedError)
    client.resetKey()
    await rejection(client.enrichPerson(input), UnauthorizedError)
    expect(client.isKeyRejected).toBe(true)
  })
})

test('the fingerprint of a key is the beginning of its SHA-256', () => {
  // printf abc | sha256sum
  expect(toKeyId('abc')).toBe('ba7816bf')
})
