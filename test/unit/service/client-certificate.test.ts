import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createProxy } from 'node:http'
import { createServer } from 'node:https'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { checkClients, describeCertificate } from '../../../src/cli/check/client.ts'
import { checkService } from '../../../src/cli/check/service.ts'
import { readEnvironment } from '../../../src/config/environment.ts'
import { ConfigProblems } from '../../../src/config/problems.ts'
import { parseService } from '../../../src/config/service.ts'
import { type Listening, listenOnLoopback } from '../../support/loopback.ts'
import { clientOf } from './loopback-service.ts'

const hasOpenssl = (() => {
  try {
    execFileSync('openssl', ['version'])
    return true
  } catch {
    return false
  }
})()

const folder = mkdtempSync(join(tmpdir(), 'fillrate-certificate-'))
const file = (name: string): string => join(folder, name)
const openssl = (...args: string[]): void =>
  void execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' })

/** An authority, a service for two names, and two clients, each `NAME.pem` with `NAME.key`. */
function makeCertificates(): void {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  openssl(
    'req',
    '-x509',
    ...key,
    '-keyout',
    'ca.key',
    '-out',
    'ca.pem',
    '-days',
    '2',
    '-subj',
    '/CN=authority',
  )
  for (const name of ['service', 'client', 'other']) {
    openssl('req', ...key, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`)
    writeFileSync(file('names'), 'subjectAltName=IP:127.0.0.1,DNS:service.test')
    const issuer = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', 'names']
    openssl('x509', '-req', '-in', `${name}.csr`, ...issuer, '-out', `${name}.pem`, '-days', '2')
  }
  openssl('pkey', '-in', 'client.key', '-aes256', '-passout', 'pass:hush', '-out', 'locked.key')
  writeFileSync(file('text.pem'), 'hush: no certificate')
}

/** Whose certificate each request had; null: none. */
let seen: (string | null)[] = []
let service: Listening | null = null
let port = 0
const trusted = getCACertificates('default')

beforeAll(async () => {
  if (!hasOpenssl) return
  makeCertificates()
  setDefaultCACertificates([...trusted, readFileSync(file('ca.pem'), 'utf8')])
  const [cert, key, ca] = ['service.pem', 'service.key', 'ca.pem'].map((name) => readFileSync(file(name)))
  const server = createServer(
    { cert, key, ca, requestCert: true, rejectUnauthorized: false },
    (request, response) => {
      const socket = request.socket as TLSSocket
      seen.push(socket.authorized ? String(socket.getPeerCertificate().subject.CN) : null)
      request.resume()
      const isToken = request.url === '/token'
      response.writeHead(isToken ? 200 : 404, { 'content-type': 'application/json' })
      response.end(isToken ? JSON.stringify({ access_token: 'token-1', token_type: 'bearer' }) : '')
    },
  )
  service = await listenOnLoopback(server)
  port = service.port
})
afterAll(async () => {
  setDefaultCACertificates(trusted)
  await service?.close()
  rmSync(folder, { recursive: true })
})
beforeEach(() => {
  seen = []
})

const environmentOf = (cert: string, key: string, more: NodeJS.ProcessEnv = {}) =>
  readEnvironment({
    FILLRATE_CLIENT_CERT: cert && file(cert),
    FILLRATE_CLIENT_KEY: key && file(key),
    ...more,
  })

/** A proxy that tunnels every name to the service. */
async function openTunnel(): Promise<{ url: string; tunnels: string[] }> {
  const tunnels: string[] = []
  const proxy = createProxy().on('connect', (request, socket, head) => {
    tunnels.push(String(request.url))
    const upstream = connect(port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connected\r\n\r\n')
      upstream.write(head)
      upstream.pipe(socket).pipe(upstream)
    })
    for (const one of [upstream, socket]) one.on('error', () => upstream.destroy())
  })
  const { url, close } = await listenOnLoopback(proxy)
  onTestFinished(close)
  return { url, tunnels }
}

describe.skipIf(!hasOpenssl)('a client certificate', () => {
  test('is shown to the service, which knows nobody without it', async () => {
    const baseUrl = `https://127.0.0.1:${port}`
    const { clientCertificate: certificate } = environmentOf('client.pem', 'client.key')
    await clientOf({ baseUrl }).enrichPerson({ email: 'ada@x.example' })
    await clientOf({ baseUrl }, { certificate }).enrichPerson({ email: 'ada@x.example' })
    expect(seen).toEqual([null, 'client'])
  })

  test('is shown through a proxy, too', async () => {
    const tunnel = await openTunnel()
    const { clientCertificate: certificate } = environmentOf('client.pem', 'client.key')
    const proxies = { http: null, https: tunnel.url, noProxy: '' }
    const client = clientOf({ baseUrl: 'https://service.test' }, { certificate, proxies })
    expect(await client.enrichPerson({ email: 'ada@x.example' })).toEqual({ outcome: 'not_found' })
    expect([seen, tunnel.tunnels]).toEqual([['client'], ['service.test:443']])
  })

  test('is shown to the token endpoint, and by `check`', async () => {
    const baseUrl = `https://127.0.0.1:${port}`
    const { service: acme } = parseService({
      definition: { name: 'Acme', auth: { oauth: { tokenUrl: '/token' } }, person: { path: '/people' } },
      place: 'service',
    })
    const environment = environmentOf('client.pem', 'client.key', {
      FILLRATE_BASE_URL: baseUrl,
      FILLRATE_API_KEY: 'id:secret',
    })
    const client = clientOf(
      { baseUrl },
      { certificate: environment.clientCertificate, service: acme!, apiKey: 'id:secret' },
    )
    await client.enrichPerson({ email: 'ada@x.example' })
    const checks = checkService(environment, Date.now)
    expect((await checks.next()).value).toMatchObject({ name: 'service', verdict: 'ok' })
    await checks.next()
    expect(await checkClients(environment, { tokenUrl: '/token' })).toMatchObject({ verdict: 'ok' })
    expect(seen).toEqual(['client', 'client', 'client', 'client'])
  })

  test('is named by `check`, with its end', () => {
    const { clientCertificate } = environmentOf('client.pem', 'client.key')
    const day = 24 * 3_600_000
    const show = (now: number) => describeCertificate(clientCertificate!, now)
    expect(show(Date.now())).toMatchObject({
      verdict: 'warning',
      text: expect.stringMatching(/^client, valid until 2/),
    })
    expect(show(Date.now() - 20 * day)).toMatchObject({ verdict: 'ok', todo: null })
    expect(show(Date.now() + 3 * day)).toMatchObject({
      verdict: 'error',
      problems: [{ place: 'FILLRATE_CLIENT_CERT' }],
    })
  })

  test.each([
    ['client.pem', '', 'FILLRATE_CLIENT_KEY', 'not set, and FILLRATE_CLIENT_CERT is'],
    ['', 'client.key', 'FILLRATE_CLIENT_CERT', 'not set, and FILLRATE_CLIENT_KEY is'],
    ['none.pem', 'client.key', 'FILLRATE_CLIENT_CERT', `${file('none.pem')}: no such file`],
    ['.', 'client.key', 'FILLRATE_CLIENT_CERT', `${file('.')}: a folder`],
    ['text.pem', 'client.key', 'FILLRATE_CLIENT_CERT', `${file('text.pem')}: something else`],
    ['client.key', 'client.key', 'FILLRATE_CLIENT_CERT', `${file('client.key')}: something else`],
    ['client.pem', 'text.pem', 'FILLRATE_CLIENT_KEY', `${file('text.pem')}: something else`],
    ['client.pem', 'locked.key', 'FILLRATE_CLIENT_KEY', `${file('locked.key')}: a key with a passphrase`],
    ['client.pem', 'other.key', 'FILLRATE_CLIENT_KEY', 'the key of another certificate'],
  ])('%j with the key %j is a mistake', (cert, key, place, found) => {
    const problems = (() => {
      try {
        environmentOf(cert, key)
        return []
      } catch (error) {
        return error instanceof ConfigProblems ? error.problems : [error]
      }
    })()
    expect(problems).toMatchObject([{ place, found }])
    expect(JSON.stringify(problems)).not.toMatch(/hush|MIG|MHc/)
  })
})
