import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { clientOf, serveAlways } from './loopback-service.ts'

// A proxy that answers in place of the service, so that no traffic leaves the machine.
let proxy: Server
let address: string
let seen: string[] = []
beforeAll(async () => {
  proxy = createServer((request, response) => {
    seen.push(`${request.method} ${request.url}`)
    request.resume()
    response.writeHead(404).end()
  })
  proxy.on('connect', (request, socket) => {
    seen.push(`CONNECT ${request.url}`)
    socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n')
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  address = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
})
afterAll(() => {
  proxy.closeAllConnections()
  proxy.close()
})
beforeEach(() => {
  seen = []
})
const proxies = (noProxy = '') => ({ http: address, https: address, noProxy })

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
