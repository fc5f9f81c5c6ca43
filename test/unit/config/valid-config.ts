import type { ConfigInput } from '../../../src/config/define.ts'
import { personSource } from '../../support/crm.ts'

/** The shortest valid configuration, for tests that break one thing. */
export const good = {
  sources: {
    contacts: personSource('crm.contacts', { title: 'title' }),
    accounts: {
      kind: 'company',
      table: 'crm.accounts',
      inputs: { domain: 't.website' },
      outputs: { industry: 'industry' },
    },
  },
} as const satisfies ConfigInput
