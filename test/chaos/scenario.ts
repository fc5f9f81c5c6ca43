import type pg from 'pg'
import type { SandboxOptions } from '../../src/sandbox/options.ts'
import { createCrm, withAccounts } from '../support/crm.ts'

type Settings = Readonly<Record<string, unknown>>

/** What is configured, and what the tables hold, when faults are injected. */
export interface Scenario {
  readonly config: Settings & {
    readonly sources: Settings & { readonly contacts: Settings & { readonly outputs: Settings } }
  }
  /** What each of several services plays, by its name. Null: there is one, without a name. */
  readonly services: Readonly<Record<string, Partial<SandboxOptions>>> | null
  readonly prepare: (pool: pg.Pool) => Promise<void>
}

/** Calls that a service is sent at the same time. */
export const CONCURRENCY = 8

const { touch: _, ...contacts } = withAccounts.sources.contacts
const sources = {
  ...withAccounts.sources,
  contacts: {
    ...contacts,
    inputs: { email: 't.email', linkedin_url: 't.linkedin' },
    // An input that is filled too: after a kill, what was written must not be taken for the user's.
    outputs: { ...contacts.outputs, linkedin: 'linkedin', phone: 'phone' },
    freshness: { column: 'enriched_at' },
  },
} as const
const bulk = { minimum: 20, grace: '0s' } as const

/** Emails go in jobs, profiles and companies one by one, so that every step has work. */
export const ONE_SERVICE: Scenario = {
  config: { ...withAccounts, sources, bulk, service: { concurrency: CONCURRENCY } },
  services: null,
  prepare: async (pool) => {
    await createCrm(pool, 120, 12)
    await pool.query(
      `insert into crm.contacts (linkedin) select 'https://www.linkedin.com/in/chaos-' || n from generate_series(1, 12) n`,
    )
    // Every fourth row has a bad cell: its batch is bisected, and the cell is listed.
    await pool.query(
      'alter table crm.contacts add constraint no_seniority check (id % 4 <> 0 or seniority is null)',
    )
  },
}

/**
 * Three services, of which none knows all people. Rows go on after a miss, and to the last one for blank cells too; accounts the other
 * way round. Two take jobs.
 */
export const SEVERAL_SERVICES: Scenario = {
  config: {
    services: {
      acme: { concurrency: CONCURRENCY, bulk },
      beta: { concurrency: CONCURRENCY, bulk },
      gamma: { concurrency: CONCURRENCY, bulk: { minimum: 1_000 } },
    },
    sources: {
      contacts: {
        ...sources.contacts,
        services: ['acme', { name: 'beta', minConfidence: 0.3 }, { name: 'gamma', when: 'blank' }],
      },
      accounts: { ...sources.accounts, services: ['gamma', 'acme'] },
    },
    budget: 'unlimited',
  },
  services: {
    acme: { seed: 1, notFoundShare: 0.4 },
    beta: { seed: 2, notFoundShare: 0.45 },
    gamma: { seed: 3, notFoundShare: 0.5 },
  },
  prepare: ONE_SERVICE.prepare,
}
