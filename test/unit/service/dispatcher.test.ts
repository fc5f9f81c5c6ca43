import { createServer } from 'node:http'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Listening, listenOnLoopback } from '../../support/loopback.ts'
import { clientOf, serveAlways } from './loopback-service.ts'

// A proxy that answers in place of the service, so that no traffic leaves the machine.
let proxy: Listening
let seen: string[] = []
beforeAll(async () => {
  const server = createServer((request, response) => {
    seen.push(`${request.method} ${request.url}`)
    request.resume()
    response.writeHead(404).end()
  })
  server.on('connect', (request, socket) => {
    seen.push(`CONNECT ${request.url}`)
    socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n')
  })
  proxy = await listenOnLoopback(server)
})
afterAll(() => proxy.close())
beforeEach(() => {
  seen = []
})
const proxies = (noProxy = '') => ({ http: proxy.url, https: proxy.url, noProxy })

test('sends calls through the configured proxy', async () => {
  const client = clientOf({ baseUrl: 'http://service.test/eu' }, { proxies: proxies() })
  expect(await client.enrichPerson({ email: 'ada@example.com' })).toEqual({ outcome: 'not_found' })
  expect(seen).toEqual(['POST http://service.test/eu/v1/person/enrich'])
})

test('uses a tunnel for TLS; without one the call was not sent', async () => {
  const client = clientOf({ baseUrl: 'https://service.test' }, { proxies: proxies() })
  await expect(client.enrichPerson({ email: 'ada@example.com' })).rejects.toMatchObject({ maybeSent: false })
  expect(seen).toEqual(['CONNECT service.test:443'])
})

test('reaches NO_PROXY hosts and loopback directly', async () => {
  const service = await serveAlways(404)
  const client = clientOf(service, { proxies: proxies() })
  expect(await client.enrichPerson({ email: 'ada@example.com' })).toEqual({ outcome: 'not_found' })
  expect(service.received).toHaveLength(1)
  const other = clientOf({ baseUrl: 'http://service.invalid' }, { proxies: proxies('service.invalid') })
  await expect(other.enrichPerson({ email: 'ada@example.com' })).rejects.toMatchObject({ maybeSent: false })
  expect(seen).toEqual([])
})
