import { describe, expect, test } from 'vitest'
import type { KeyRejection } from '../../../src/service/key-judge.ts'
import { ForbiddenError, KeyOnTrialError, UnauthorizedError } from '../../../src/service/errors.ts'
import { toKeyId, KeyRing } from '../../../src/service/api-keys.ts'
import { clientOf, recordingObserver, rejection, serve } from './loopback-service.ts'

const input = { email: 'a@x.example' }

/** A service that accepts some keys and answers 404. */
const serveKeys = (valid: ReadonlySet<string>) =>
  serve(({ headers }, response) => {
    const key = headers.authorization?.replace('Bearer ', '') ?? ''
    response.writeHead(valid.has(key) ? 404 : 401).end()
  })

describe('several keys', () => {
  test('switches from a rejected key to the next, for the next call only', async () => {
    const service = await serveKeys(new Set(['old']))
    const rejections: KeyRejection[] = []
    const client = clientOf(service, {
      apiKey: ['new', 'old'],
      onKeyRejected: (rejected) => rejections.push(rejected),
    })
    expect([client.keyCount, client.keyId]).toEqual([2, toKeyId('new')])

    const observer = recordingObserver()
    const error = await rejection(client.enrichPerson(input, { observer }), UnauthorizedError)
    expect(error).toMatchObject({
      status: 401,
      hasNextKey: true,
      action: 'rotate_key',
      keyId: toKeyId('new'),
    })
    expect(observer.events).toEqual(['sent', 'answered 401'])
    expect(service.received).toHaveLength(1)
    expect(client.keyId).toBe(toKeyId('old'))
    expect(rejections).toEqual([
      { keyId: toKeyId('new'), status: 401, nextKeyId: toKeyId('old'), usableKeys: 1 },
    ])

    expect(await client.enrichPerson(input)).toEqual({ outcome: 'not_found' })
    expect(client.allKeysRejected).toBe(false)
  })

  test('many concurrent calls with one rejected key skip no key', async () => {
    const service = await serveKeys(new Set(['second', 'third']))
    const rejections: KeyRejection[] = []
    const client = clientOf(service, {
      apiKey: ['first', 'second', 'third'],
      onKeyRejected: (rejected) => rejections.push(rejected),
    })
    const errors = await Promise.all(
      Array.from({ length: 20 }, () => rejection(client.enrichPerson(input), UnauthorizedError)),
    )
    expect(errors.every(({ hasNextKey }) => hasNextKey)).toBe(true)
    expect(rejections).toHaveLength(1)
    expect(client.keyId).toBe(toKeyId('second'))
  })

  test('once all are rejected, sends no call until the keys are reset', async () => {
    const valid = new Set<string>()
    const service = await serveKeys(valid)
    const client = clientOf(service, { apiKey: ['new', 'old'] })
    await rejection(client.enrichPerson(input), UnauthorizedError)
    const last = await rejection(client.enrichPerson(input), UnauthorizedError)
    expect(last).toMatchObject({ hasNextKey: false, action: 'abort_run', maybeSent: true })
    expect(last.message).toMatch(/the service rejected the API key [0-9a-f]{8} \(HTTP 401\)$/)
    expect(client.allKeysRejected).toBe(true)

    const unsent = await rejection(client.enrichPerson(input), UnauthorizedError)
    expect(unsent).toMatchObject({ hasNextKey: false, status: null, maybeSent: false })
    expect(service.received).toHaveLength(2)

    valid.add('new')
    client.resetKeys()
    expect(await client.enrichPerson(input)).toEqual({ outcome: 'not_found' })
    expect(client.keyId).toBe(toKeyId('new'))
  })
})

describe('rejected keys that are tried again', () => {
  test('are not accepted by the answer to a call that was sent before they were rejected', async () => {
    const revoked = Promise.withResolvers<void>()
    let calls = 0
    const service = await serve(async (_, response) => {
      const isFirst = ++calls === 1
      if (isFirst) await revoked.promise
      response.writeHead(isFirst || calls > 2 ? 404 : 401).end()
    })
    const events: string[] = []
    const client = clientOf(service, {
      apiKey: 'only',
      onKeyRejected: () => events.push('rejected'),
      onKeyAccepted: () => events.push('accepted'),
    })
    const before = client.enrichPerson(input)
    await expect.poll(() => calls).toBe(1)
    await rejection(client.enrichPerson(input), UnauthorizedError)
    revoked.resolve()
    expect(await before).toEqual({ outcome: 'not_found' })
    expect(events).toEqual(['rejected'])
    client.resetKeys()
    await client.enrichPerson(input)
    expect(events).toEqual(['rejected', 'accepted'])
  })

  test('are tried one call at a time; rejection and acceptance are reported once', async () => {
    const valid = new Set<string>()
    const service = await serveKeys(valid)
    const events: string[] = []
    const client = clientOf(service, {
      apiKey: 'only',
      onKeyRejected: () => events.push('rejected'),
      onKeyAccepted: () => events.push('accepted'),
    })
    await rejection(client.enrichPerson(input), UnauthorizedError)
    expect(client.callsAllowedByKeys).toBe(0)
    for (let again = 0; again < 3; again++) {
      client.resetKeys()
      expect(client.callsAllowedByKeys).toBe(1)
      const first = client.enrichPerson(input)
      expect(client.callsAllowedByKeys).toBe(0)
      expect(await rejection(client.enrichPerson(input), KeyOnTrialError)).toMatchObject({
        action: 'release',
        maybeSent: false,
      })
      await rejection(first, UnauthorizedError)
    }
    expect(service.received).toHaveLength(4)
    valid.add('only')
    client.resetKeys()
    await client.enrichPerson(input)
    await client.enrichPerson(input)
    expect(client.callsAllowedByKeys).toBe(Number.POSITIVE_INFINITY)
    expect(events).toEqual(['rejected', 'accepted'])
  })

  test('are rejected again by a single 403', async () => {
    const service = await serve((_, response) => response.writeHead(403).end())
    const client = clientOf(service)
    await rejection(client.enrichPerson(input), ForbiddenError)
    await rejection(client.enrichPerson({ email: 'b@x.example' }), ForbiddenError)
    await rejection(client.enrichPerson({ email: 'c@x.example' }), UnauthorizedError)
    client.resetKeys()
    await rejection(client.enrichPerson(input), UnauthorizedError)
    expect(client.allKeysRejected).toBe(true)
  })
})

describe('keys', () => {
  test('the fingerprint of a key is the beginning of its SHA-256', () => {
    // printf abc | sha256sum
    expect(toKeyId('abc')).toBe('ba7816bf')
  })

  test('duplicate keys count once', () => {
    expect(new KeyRing(['a', 'a', 'b']).count).toBe(2)
  })
})
