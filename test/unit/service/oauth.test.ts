import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { parseService } from '../../../src/config/service-schema.ts'
import { defineService } from '../../../src/domain/service/adapter.ts'
import type { OAuthClient } from '../../../src/domain/service/auth.ts'
import { toKeyId } from '../../../src/service/api-keys.ts'
import { Breaker } from '../../../src/service/breaker.ts'
import type { EnrichmentClient } from '../../../src/service/client.ts'
import {
  AbortedError,
  ServiceError,
  TokenEndedError,
  TokenUnavailableError,
  UnauthorizedError,
} from '../../../src/service/errors.ts'
import type { ReceivedRequest } from '../../support/loopback.ts'
import { clientOf, recordingObserver, rejection, serve } from './loopback-service.ts'

const input = { email: 'ada@x.example' }
const CLIENT = 'acme-crm:s3cret/of+the client'.replace(' ', '%')

interface TokenAnswer {
  readonly status?: number
  readonly body?: unknown
  readonly headers?: Record<string, string>
  /** Nothing is answered until then. */
  readonly until?: Promise<unknown>
}

const describeService = (oauth: Partial<OAuthClient> = {}) => {
  const { service } = parseService({
    definition: defineService({
      name: 'Acme Data',
      auth: { oauth: { tokenUrl: '/oauth/token', ...oauth } },
      person: { path: '/people' },
    }),
    place: 'service',
  })
  return service!
}

/**
 * A service whose tokens are issued below the same address: `issue` says how each request for one is answered, and those in
 * `valid` are accepted. What is not issued as it should be is a 401 without a match.
 */
async function serveTokens(issue: (nth: number) => TokenAnswer = () => ({})) {
  const valid = new Set<string>()
  const state = { isRefusing: false }
  const requests: ReceivedRequest[] = []
  const calls: ReceivedRequest[] = []
  const { baseUrl } = await serve(async (request, response) => {
    if (request.url.startsWith('/oauth/')) {
      const nth = requests.push(request)
      const token = `token-${nth}-of-the-client`
      const { status = 200, body, headers = {}, until } = issue(nth)
      await until
      if (status === 200 && body === undefined) valid.add(token)
      response.writeHead(status, { 'content-type': 'application/json', ...headers })
      const usual = { access_token: token, token_type: 'bearer', expires_in: 3600 }
      return response.end(typeof body === 'string' ? body : JSON.stringify(body ?? usual))
    }
    calls.push(request)
    const token = request.headers.authorization?.replace('Bearer ', '') ?? ''
    return response.writeHead(valid.has(token) && !state.isRefusing ? 404 : 401).end()
  })
  return { baseUrl, valid, state, requests, calls }
}

const open = (
  service: { baseUrl: string },
  oauth: Partial<OAuthClient> = {},
  options: Partial<ConstructorParameters<typeof EnrichmentClient>[0]> = {},
): EnrichmentClient => clientOf(service, { apiKey: CLIENT, service: describeService(oauth), ...options })

describe('the request for a token', () => {
  test('has the client in the body', async () => {
    const service = await serveTokens()
    expect(await open(service).enrichPerson(input)).toEqual({ outcome: 'not_found' })
    const [{ method, url, headers, body } = {} as never] = service.requests
    expect([method, url, headers['content-type']]).toEqual([
      'POST',
      '/oauth/token',
      'application/x-www-form-urlencoded',
    ])
    expect(headers.authorization).toBeUndefined()
    expect(Object.fromEntries(new URLSearchParams(body))).toEqual({
      grant_type: 'client_credentials',
      client_id: 'acme-crm',
      client_secret: 's3cret/of+the%client',
    })
    expect(service.calls.map((one) => one.headers.authorization)).toEqual(['Bearer token-1-of-the-client'])
  })

  test('goes to another host where the description names one', async () => {
    const [service, tokens] = [await serveTokens(), await serveTokens()]
    const client = open(service, { tokenUrl: `${tokens.baseUrl}/oauth/token?tenant=acme` })
    service.valid.add('token-1-of-the-client')
    expect(await client.enrichPerson(input)).toEqual({ outcome: 'not_found' })
    expect(tokens.requests.map(({ url }) => url)).toEqual(['/oauth/token?tenant=acme'])
    expect(service.requests).toEqual([])
  })

  test('is below the path of the base URL', async () => {
    const { baseUrl, received } = await serve((_, response) => response.writeHead(500).end())
    const client = open({ baseUrl: `${baseUrl}/eu` })
    await rejection(client.enrichPerson(input), TokenUnavailableError)
    expect(received.map(({ url }) => url)).toEqual(['/eu/oauth/token'])
  })

  test('is one for all concurrent calls, and takes no permit', async () => {
    const answer = Promise.withResolvers<void>()
    const service = await serveTokens(() => ({ until: answer.promise }))
    const client = open(service)
    const observers = Array.from({ length: 20 }, () => recordingObserver())
    const calls = observers.map((observer) => client.enrichPerson(input, { observer }))
    await expect.poll(() => service.requests.length).toBe(1)
    expect(observers.flatMap(({ events }) => events)).toEqual([])
    answer.resolve()
    await Promise.all(calls)
    expect([service.requests.length, service.calls.length]).toEqual([1, 20])
    expect(observers.map(({ events }) => events)).toEqual(observers.map(() => ['sent', 'answered 404']))
  })

  test('goes on for others when a call that waits for it is aborted', async () => {
    const answer = Promise.withResolvers<void>()
    const service = await serveTokens(() => ({ until: answer.promise }))
    const client = open(service)
    const stop = new AbortController()
    const [aborted, other] = [client.enrichPerson(input, stop), client.enrichPerson(input)]
    await expect.poll(() => service.requests.length).toBe(1)
    stop.abort()
    expect(await rejection(aborted, AbortedError)).toMatchObject({ maybeSent: false })
    answer.resolve()
    expect(await other).toEqual({ outcome: 'not_found' })
    expect([service.requests.length, service.calls.length]).toEqual([1, 1])
  })
})

describe('a token that has ended', () => {
  test('is replaced: the call is released, the client keeps its fingerprint, and no key is rejected', async () => {
    const service = await serveTokens()
    const client = open(service)
    await client.enrichPerson(input)
    service.valid.clear()
    const error = await rejection(client.enrichPerson(input), TokenEndedError)
    expect(error).toMatchObject({ action: 'release', status: 401, maybeSent: true })
    expect(await client.enrichPerson(input)).toEqual({ outcome: 'not_found' })
    expect([service.requests.length, client.keyId, client.isKeyRejected]).toEqual([2, toKeyId(CLIENT), false])
  })

  test('a new one that is refused too shows that the key is', async () => {
    const service = await serveTokens()
    const client = open(service)
    await client.enrichPerson(input)
    service.state.isRefusing = true
    await rejection(client.enrichPerson(input), TokenEndedError)
    const error = await rejection(client.enrichPerson(input), UnauthorizedError)
    expect(error).toMatchObject({ status: 401, reason: 'HTTP 401', action: 'abort_run' })
    await rejection(client.enrichPerson(input), UnauthorizedError)
    expect(service.requests).toHaveLength(2)
    service.state.isRefusing = false
    client.resetKey()
    expect(await client.enrichPerson(input)).toEqual({ outcome: 'not_found' })
    expect(service.requests).toHaveLength(3)
  })
})

describe('a token endpoint that issues none', () => {
  const host = (service: { baseUrl: string }): string => new URL(service.baseUrl).host
  const html = { headers: { 'content-type': 'text/html' }, body: '<!doctype html><h1>Welcome</h1>' }

  test.each<[string, TokenAnswer, string]>([
    ['500', { status: 500 }, 'HTTP 500'],
    ['503', { status: 503, body: { error: 'temporarily_unavailable' } }, 'HTTP 503, temporarily_unavailable'],
    ['429', { status: 429, headers: { 'retry-after': '40' } }, 'HTTP 429'],
    ['a page', { ...html }, 'HTTP 200 without a token'],
    ['a page of a firewall', { ...html, status: 403 }, 'HTTP 403'],
    ['no token', { body: { token: 'x' } }, 'HTTP 200 without a token'],
    [
      'a token of no header',
      { body: { access_token: 'a\r\nb', token_type: 'bearer' } },
      'HTTP 200 without a token',
    ],
    ['a temporary error', { status: 400, body: { error: 'slow_down' } }, 'HTTP 400, slow_down'],
  ])('%s is an outage: nothing is sent, and the circuit opens', async (_, answer, what) => {
    const service = await serveTokens(() => answer)
    const client = open(service)
    const breaker = new Breaker()
    const observer = recordingObserver()
    const errors: TokenUnavailableError[] = []
    for (let n = 0; n < 3; n++)
      errors.push(
        await rejection(
          breaker.execute(() => client.enrichPerson(input, { observer })),
          TokenUnavailableError,
        ),
      )
    const reason = `token endpoint ${host(service)}: ${what}`
    expect(errors[0]).toMatchObject({ action: 'retry', maybeSent: false, status: null, reason })
    expect(errors[0]?.retryAfterMs).toBe(answer.status === 429 ? 40_000 : null)
    expect([breaker.state, breaker.snapshot()?.reason, breaker.snapshot()?.cause]).toEqual([
      'open',
      reason,
      'failing',
    ])
    // Once: the others came within its pause.
    expect([service.requests.length, service.calls.length, observer.events]).toEqual([1, 0, []])
    expect(client.isKeyRejected).toBe(false)
  })

  test('one that does not answer is unreachable', async () => {
    const silent = open(await serveTokens(() => ({ until: new Promise(() => {}) })), {}, { timeoutMs: 50 })
    expect(await rejection(silent.enrichPerson(input), TokenUnavailableError)).toMatchObject({
      isUnreachable: true,
      reason: expect.stringMatching(/: no response in time$/),
    })
    const away = open(await serveTokens(), { tokenUrl: 'http://127.0.0.1:9/token' })
    expect(await rejection(away.enrichPerson(input), TokenUnavailableError)).toMatchObject({
      isUnreachable: true,
      reason: 'token endpoint 127.0.0.1:9: connection refused',
    })
  })

  test.each<[string, TokenAnswer, string]>([
    ['invalid_client', { status: 400, body: { error: 'invalid_client' } }, 'HTTP 400, invalid_client'],
    ['401', { ...html, status: 401 }, 'HTTP 401'],
    ['401 with a code', { status: 401, body: { error: 'invalid_client' } }, 'HTTP 401, invalid_client'],
    ['invalid_scope', { status: 400, body: { error: 'invalid_scope' } }, 'HTTP 400, invalid_scope'],
    ['403', { status: 403, body: { message: 'disabled' } }, 'HTTP 403'],
    ['an error inside a 200', { body: { error: 'invalid_client' } }, 'HTTP 200, invalid_client'],
    ['404', { ...html, status: 404 }, 'HTTP 404; is `auth.oauth.tokenUrl` right?'],
    [
      'a redirect',
      { status: 302, headers: { location: '/login' } },
      'HTTP 302; is `auth.oauth.tokenUrl` right?',
    ],
    [
      'another type',
      { body: { access_token: 'x', token_type: 'mac' } },
      'tokens of a type other than Bearer, which are not supported',
    ],
  ])('%s refuses the client', async (_, answer, what) => {
    const service = await serveTokens(() => answer)
    const client = open(service)
    const reason = `token endpoint ${host(service)}: ${what}`
    const error = await rejection(client.enrichPerson(input), UnauthorizedError)
    expect(error).toMatchObject({ action: 'abort_run', maybeSent: false, status: null, reason })
    expect(error.message).toContain(`no access token for the client ${toKeyId(CLIENT)} (${reason})`)
    expect([client.isKeyRejected, service.calls.length]).toEqual([true, 0])
    await rejection(client.enrichPerson(input), UnauthorizedError)
    expect(service.requests).toHaveLength(1)
  })
})

describe('secrets', () => {
  test('neither client nor token is in an error', async () => {
    const secrets = ['s3cret', encodeURIComponent('s3cret/of+the%client'), 'token-']
    const errors: ServiceError[] = []
    for (const status of [200, 302, 400, 401, 403, 429, 500]) {
      // An endpoint that sends back what it got, and a service that does.
      const echo = await serve(({ url, headers, body }, response) => {
        const isToken = url.startsWith('/oauth/')
        response.writeHead(isToken ? status : 500)
        const token = { access_token: 'token-1', error_description: body }
        response.end(JSON.stringify(isToken && status === 200 ? token : { error: body, headers }))
      })
      errors.push(await rejection(open(echo).enrichPerson(input), ServiceError))
    }
    for (const error of errors) {
      const printed = inspect(error, { depth: 10, showHidden: true }) + JSON.stringify(error) + error.stack
      for (const secret of secrets) expect(printed).not.toContain(secret)
    }
  })
})
