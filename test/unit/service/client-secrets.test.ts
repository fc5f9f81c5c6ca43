import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { ConnectionError, ServiceError, TimeoutError } from '../../../src/service/errors.ts'
import { clientOf, rejection, serve } from './loopback-service.ts'

const input = { email: 'secret.person@x.example' }
const bulk = { emails: [input.email], webhookUrl: 'http://127.0.0.1:1/w' }

describe('secrets in errors', () => {
  const secrets = ['key-of-the-test', Buffer.from('key-of-the-test:').toString('base64'), 'secret.person']

  test.each(['bearer', 'x-api-key', 'basic', 'query'] as const)(
    'the key and the input, with %s',
    async (auth) => {
      const echo = await serve(({ url, body, headers }, response) => {
        response.writeHead(Number(headers['user-agent']))
        response.end(JSON.stringify({ url, body, headers }))
      })
      const errors: Error[] = []
      for (const status of [200, 302, 400, 401, 403, 422, 429, 500, 503]) {
        const client = clientOf(echo, { auth, userAgent: String(status) })
        errors.push(await rejection(client.enrichPerson(input), ServiceError))
        errors.push(await rejection(client.submitBulk(bulk), ServiceError))
        errors.push(await rejection(client.enrichCompany({ domain: 'secret.person' }), ServiceError))
      }
      const mute = clientOf(await serve(({ socket }) => socket.destroy()), { auth })
      errors.push(await rejection(mute.enrichPerson(input), ConnectionError))
      const slow = clientOf(await serve(() => {}), { auth, timeoutMs: 50 })
      errors.push(await rejection(slow.enrichCompany({ domain: 'secret.person' }), TimeoutError))
      for (const error of errors) {
        const printed = inspect(error, { depth: 10 }) + JSON.stringify(error) + error.stack
        for (const secret of secrets) expect(printed).not.toContain(secret)
      }
      // The service sends back the key, too.
      for (const error of errors)
        for (const secret of secrets.slice(0, 2))
          expect(error instanceof ServiceError ? error.detail : '').not.toContain(secret)
      // Still accessible by name.
      expect(
        errors.some((error) => error instanceof ServiceError && error.detail.includes('secret.person')),
      ).toBe(true)
    },
  )
})
