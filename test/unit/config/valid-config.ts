import type { ConfigInput } from '../../../src/config/define.ts'

/** The shortest valid configuration, for tests that break one thing. */
export const good = {
  sources: {
    contacts: {
      kind: 'person',
      table: 'crm.contacts',
      inputs: { email: 't.email' },
      outputs: { title: 'title' },
    },
    accounts: {
      kind: 'company',
      table: 'crm.accounts',
      inputs: { domain: 't.website' },
      outputs: { industry: 'industry' },
    },
  },
} as const satisfies ConfigInput
