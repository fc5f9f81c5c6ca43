import { describe, expect, it } from 'vitest'
import { call, sandboxWith } from './support.ts'

const body = { email: 'a@acme.com' }
const path = '/v1/person/enrich'
const basic = (text: string) => ({ authorization: `Basic ${Buffer.from(text).toString('base64')}` })

const styles: readonly (readonly [string, string, Record<string, string>])[] = [
  ['bearer', path, { authorization: 'Bearer key-one' }],
  ['x-api-key', path, { 'x-api-key': 'key-one' }],
  ['basic', path, basic('key-one:')],
  ['query', `${path}?api_key=key-one`, {}],
]

describe('keys', () => {
  it.each(styles)('are accepted as %s', async (_, path, headers) => {
    const sandbox = await sandboxWith({ notFoundShare: 0 })
    expect((await call(sandbox, path, { body, headers })).status).toBe(200)
  })

  it.each([
    {},
    { authorization: 'Bearer key-two' },
    { authorization: 'Bearer' },
    { authorization: 'key-one' },
    { 'x-api-key': 'KEY-ONE' },
    basic('key-one'),
    basic('key-one:password'),
    basic('key-one::'),
    basic(':key-one'),
  ])('are missing or invalid in %j', async (headers) => {
    const sandbox = await sandboxWith({ limit: 10 })
    const response = await call(sandbox, path, { body, headers })
    expect(response.status).toBe(401)
    expect(response.json()).toMatchObject({ error: { code: 'unauthorized' } })
    expect(response.headers['x-ratelimit-limit']).toBeUndefined()
    expect(response.text).not.toContain('key-two')
  })

  it('are checked before anything else about a call', async () => {
    const sandbox = await sandboxWith()
    expect((await call(sandbox, path, { text: '{', headers: {} })).status).toBe(401)
    expect(sandbox.stats().inputs.tried).toBe(0)
  })

  it('can be several, and be revoked while it runs', async () => {
    const sandbox = await sandboxWith({ keys: ['old', 'new'], notFoundShare: 0 })
    const status = async (key: string) =>
      (await call(sandbox, path, { body, headers: { authorization: `Bearer ${key}` } })).status
    expect([await status('old'), await status('new')]).toEqual([200, 200])
    sandbox.configure({ keys: ['new'] })
    expect([await status('old'), await status('new')]).toEqual([401, 200])
  })
})
