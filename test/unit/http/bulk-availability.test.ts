import { describe, expect, test } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { createService } from '../../../src/domain/service/service.ts'
import { checkBulkAvailability } from '../../../src/actions/bulk-availability.ts'

const SERVICE = { baseUrl: 'https://api.enrichment.example' }

describe('bulk', () => {
  test('without a secret and a public URL, both are named at once', () => {
    expect(
      checkBulkAvailability({ ...SERVICE, webhookSecrets: [], publicUrl: null }, BUILT_IN_SERVICE),
    ).toEqual({
      isPossible: false,
      reason: 'FILLRATE_WEBHOOK_SECRET and FILLRATE_PUBLIC_URL are not set',
      todo:
        'set FILLRATE_WEBHOOK_SECRET to the secret that the service signs webhooks with, and FILLRATE_PUBLIC_URL ' +
        'to the URL at which the service reaches the webhook receiver',
    })
  })

  test.each([
    ['FILLRATE_WEBHOOK_SECRET', [], 'https://hooks.example.com'],
    ['FILLRATE_PUBLIC_URL', ['secret'], null],
  ])('without %s, it alone is named', (name, webhookSecrets, publicUrl) => {
    const { isPossible, reason, todo } = checkBulkAvailability(
      { ...SERVICE, webhookSecrets, publicUrl },
      BUILT_IN_SERVICE,
    )
    expect({ isPossible, reason }).toEqual({ isPossible: false, reason: `${name} is not set` })
    expect(todo).toMatch(new RegExp(`^set ${name} to the [^,]+$`))
  })

  test('two endpoints, of which one needs deliveries: it is possible, and what is missing is named', () => {
    const jobs = { path: '/bulk', body: () => ({}) }
    const definition = {
      name: 'Acme',
      person: { path: '/' },
      company: { path: '/' },
      bulk: jobs,
      companyBulk: { ...jobs, results: 'answer' },
      webhook: { signature: { header: 'x-signature' } },
    } as const
    const without = { ...SERVICE, webhookSecrets: [], publicUrl: 'https://hooks.example.com' }
    expect(checkBulkAvailability(without, createService(definition))).toMatchObject({
      isPossible: true,
      usesWebhook: false,
      reason: null,
      todo: expect.stringContaining('FILLRATE_WEBHOOK_SECRET') as unknown,
    })
    const withSecret = { ...without, webhookSecrets: ['secret'] }
    expect(checkBulkAvailability(withSecret, createService(definition)).usesWebhook).toBe(true)
    const { bulk: _bulk, webhook: _webhook, ...companies } = definition
    expect(checkBulkAvailability(without, createService(companies))).toEqual({
      isPossible: true,
      usesWebhook: false,
      reason: null,
      todo: null,
    })
  })

  test('a service on this machine needs no public URL', () => {
    const local = { baseUrl: 'http://127.0.0.1:4010', publicUrl: null }
    expect(checkBulkAvailability({ ...local, webhookSecrets: ['secret'] }, BUILT_IN_SERVICE).isPossible).toBe(
      true,
    )
    expect(checkBulkAvailability({ ...local, webhookSecrets: [] }, BUILT_IN_SERVICE).reason).toBe(
      'FILLRATE_WEBHOOK_SECRET is not set',
    )
  })
})
