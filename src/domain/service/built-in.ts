import { BUILT_IN_FIELDS } from '../record-fields.ts'
import { defineService } from './adapter.ts'
import { createService, type Service } from './service.ts'

/**
 * The interface that Fillrate speaks without a `service`: these paths, and each default of a description. docs/service-interface.md
 * has the whole interface.
 */
export const BUILT_IN_SERVICE: Service = createService(
  defineService({
    name: 'built-in',
    person: { path: '/v1/person/enrich' },
    company: { path: '/v1/company/enrich' },
    bulk: { path: '/v1/person/bulk' },
    fields: BUILT_IN_FIELDS,
  }),
)
