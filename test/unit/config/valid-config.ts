import type { ConfigInput } from '../../../src/config/define.ts'

/** The shortest configuration that is right, for tests that put one thing wrong. */
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
