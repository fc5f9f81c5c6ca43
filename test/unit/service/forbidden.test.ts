import { describe, expect, test } from 'vitest'
import {
  ForbiddenError,
  InputForbiddenError,
  RateLimitedError,
  UnauthorizedError,
} from '../../../src/service/errors.ts'
import { ForbiddenClassifier } from '../../../src/service/key-judge.ts'
import type { ReceivedRequest } from '../../support/loopback.ts'
import { clientOf, rejection, serve } from './loopback-service.ts'

const person = (name: string) => ({ email: `${name}@x.example` })

/** A service that answers each email with its configured status, or 404. */
async function serveStatuses(
  statuses: Readonly<Record<string, number>>,
  headers: Record<string, string> = {},
) {
  const service = await serve(({ body }: ReceivedRequest, response) => {
    const { email } = JSON.parse(body) as { email: string }
    const status = statuses[email.split('@')[0] ?? ''] ?? 404
    response.writeHead(status, status === 403 ? headers : {}).end()
  })
  return clientOf(service)
}

describe('a 403', () => {
  test('to one input stops nothing, and rejects this input once others succeed', async () => {
    const client = await serveStatuses({ blocked: 403 })
    await rejection(client.enrichPerson(person('blocked')), ForbiddenError)
    expect(await client.enrichPerson(person('other'))).toEqual({ outcome: 'not_found' })
    const error = await rejection(client.enrichPerson(person('blocked')), InputForbiddenError)
    expect(error).toMatchObject({ action: 'reject', status: 403 })
    expect(client.isKeyRejected).toBe(false)
  })

  test.each([
    ['before any was answered', [], 3],
    ['once one was answered', ['fine'], 10],
  ])('%s, as many different inputs in a row reject the key', async (_, answered, inputs) => {
    const blocked = Array.from({ length: inputs }, (_, n) => `blocked${n}`)
    const client = await serveStatuses(Object.fromEntries(blocked.map((name) => [name, 403])))
    for (const name of answered) await client.enrichPerson(person(name))
    for (const name of blocked.slice(1)) await rejection(client.enrichPerson(person(name)), ForbiddenError)
    expect(client.isKeyRejected).toBe(false)
    const error = await rejection(client.enrichPerson(person('blocked0')), UnauthorizedError)
    expect(error).toMatchObject({ action: 'abort_run', status: 403 })
    expect(client.isKeyRejected).toBe(true)
  })

  test('to the only input in flight decides nothing, however often it occurs', async () => {
    const client = await serveStatuses({ alone: 403 })
    for (let times = 1; times <= 4; times++)
      await rejection(client.enrichPerson(person('alone')), ForbiddenError)
    expect(client.isKeyRejected).toBe(false)
  })

  test('with a firewall page rejects its input the second time', async () => {
    const client = await serveStatuses({ alone: 403 }, { 'content-type': 'text/html' })
    await rejection(client.enrichPerson(person('alone')), ForbiddenError)
    await rejection(client.enrichPerson(person('alone')), InputForbiddenError)
    expect(client.isKeyRejected).toBe(false)
  })

  test('with a page in HTML to every input names a firewall, and not the key alone', async () => {
    const { baseUrl } = await serve((_, response) =>
      response.writeHead(403, { 'content-type': 'text/html' }).end('<!doctype html><h1>Blocked</h1>'),
    )
    const client = clientOf({ baseUrl })
    const said: string[] = []
    for (let n = 0; n < 20 && !client.isKeyRejected; n++)
      await client.enrichPerson(person(`p${n}`)).catch((error: Error) => void said.push(error.message))
    expect(said.at(-1)).toContain('a firewall or a proxy in front of the service')
  })

  test('after a 429 is a ban, counted against neither key nor input', async () => {
    const client = await serveStatuses({ often: 429, a: 403, b: 403 })
    await rejection(client.enrichPerson(person('often')), RateLimitedError)
    for (const name of ['a', 'b', 'a', 'b'])
      expect(await rejection(client.enrichPerson(person(name)), RateLimitedError)).toMatchObject({
        action: 'release',
      })
    expect(client.isKeyRejected).toBe(false)
    // It is over.
    await client.enrichPerson(person('fine'))
  })
})

test('a 403 within a minute of a 429 is a ban; one long after it is not, or a blocked input would be called for ever', () => {
  const forbidden = new ForbiddenClassifier()
  const judge = (input: string, now: number) =>
    forbidden.classify(input, { startMark: forbidden.startCall(), isHtml: false, now })
  forbidden.recordRateLimited(0)
  expect(judge('a', 60_000)).toBe('ban')
  expect(judge('b', 600_000)).toBe('unknown')
  forbidden.recordRateLimited(600_000)
  expect(judge('a', 660_000)).toBe('ban')
  forbidden.recordAccepted(600_001)
  expect(judge('a', 660_000)).toBe('unknown')
})

test('a 403 while others succeed does not count against the key', () => {
  const forbidden = new ForbiddenClassifier()
  const startMark = forbidden.startCall()
  forbidden.recordAccepted(0)
  const judge = (input: string) => forbidden.classify(input, { startMark, isHtml: false, now: 0 })
  expect([judge('a'), judge('b'), judge('c')]).toEqual(['unknown', 'unknown', 'unknown'])
  expect(judge('a')).toBe('input')
})

test('a blocked input after a 429 is rejected by itself once another one is answered', async () => {
  const statuses: Record<string, number> = { limited: 429, blocked: 403 }
  const client = await serveStatuses(statuses)
  await rejection(client.enrichPerson(person('limited')), RateLimitedError)
  await rejection(client.enrichPerson(person('blocked')), RateLimitedError)
  expect(await client.enrichPerson(person('fine'))).toEqual({ outcome: 'not_found' })
  await rejection(client.enrichPerson(person('blocked')), ForbiddenError)
  expect(await client.enrichPerson(person('other'))).toEqual({ outcome: 'not_found' })
  await rejection(client.enrichPerson(person('blocked')), InputForbiddenError)
})
