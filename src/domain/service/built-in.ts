import { BUILT_IN_SHAPES } from '../record-fields.ts'
import { defineService } from './adapter.ts'
import { createService, type Service } from './service.ts'

/**
 * The interface that Fillrate speaks without a `service`: paths, bodies, wrappers of records, header names, signature.
 * Nothing else knows them; docs/service-interface.md has the whole interface.
 */
export const BUILT_IN_SERVICE: Service = createService(
  defineService({
    name: 'built-in',
    person: {
      method: 'POST',
      path: '/v1/person/enrich',
      body: (input) => ('linkedinUrl' in input ? { linkedin_url: input.linkedinUrl } : input),
      record: { wrappers: ['data', 'person', 'result', 'record', 'results'], confidence: 'confidence' },
    },
    company: {
      method: 'GET',
      path: '/v1/company/enrich',
      query: ({ domain }) => ({ domain }),
      record: { wrappers: ['data', 'company', 'result', 'record', 'results'] },
    },
    bulk: {
      path: '/v1/person/bulk',
      size: 100,
      body: ({ emails, webhookUrl }) => ({ emails, webhook_url: webhookUrl }),
      results: 'webhook',
    },
    webhook: { signature: { header: 'x-webhook-signature', algorithm: 'sha256', encoding: 'hex' } },
    fields: BUILT_IN_SHAPES,
  }),
)
