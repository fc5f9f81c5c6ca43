import { defineConfig } from '../config/define.ts'
import { startSandbox, type Sandbox } from '../sandbox/server.ts'

/** The size of a demo: large enough to reach the rate limit, and done within a minute. */
export const FULL_DEMO = {
  /** Determines the companies, the people, the records and the faults. */
  seed: 7,
  accounts: 800,
  contacts: 5_000,
}

export type DemoSettings = Readonly<typeof FULL_DEMO>

/** The services of the demo, in their order: a cheap one, and a dearer one for those that it does not know. */
export const DEMO_SERVICES = {
  acme: { seedStep: 0, knows: 0.6, lookup: 0.05 },
  beta: { seedStep: 1, knows: 0.5, lookup: 0.2 },
} as const
export type DemoServiceName = keyof typeof DEMO_SERVICES
export const DEMO_SERVICE_NAMES = Object.keys(DEMO_SERVICES) as DemoServiceName[]

/** The rate limit of each service. */
export const DEMO_LIMIT = { limit: 150, windowMs: 2_000 } as const

/** Why the demo cannot continue, and what to do about it. Printed as it is. */
export class DemoError extends Error {
  override readonly name = 'DemoError'
}

/** The demo's configuration, as in a fillrate.config file. */
export const demoConfig = () =>
  defineConfig({
    services: Object.fromEntries(
      DEMO_SERVICE_NAMES.map((name) => [
        name,
        {
          price: { currency: 'EUR', lookup: DEMO_SERVICES[name].lookup },
          bulk: { grace: '1s' as const },
        },
      ]),
    ),
    sources: {
      accounts: {
        kind: 'company',
        table: 'crm.accounts',
        where: 't.archived_at is null',
        inputs: { domain: 't.website' },
        outputs: { industry: 'industry', employees: 'employee_count', country: 'location.country' },
      },
      contacts: {
        kind: 'person',
        table: 'crm.contacts',
        joins: 'left join crm.accounts a on a.id = t.account_id',
        where: 't.deleted_at is null',
        inputs: {
          email: 't.email',
          linkedin_url: 't.linkedin',
          name: "concat_ws(' ', t.first_name, t.last_name)",
          company: 'a.name',
        },
        minConfidence: 0.5,
        outputs: {
          title: 'title',
          phone: { field: 'phone', policy: 'tracked', minConfidence: 0.7 },
          seniority: 'seniority',
          'attributes.department': 'department',
        },
        touch: { enriched_at: 'now()' },
      },
    },
    budget: { amount: 1_000, currency: 'EUR' },
  })

/** An enrichment service of the demo: the sandbox with a low rate limit and typical faults. */
export function startDemoService({ seed }: DemoSettings, name: DemoServiceName): Promise<Sandbox> {
  const { seedStep, knows } = DEMO_SERVICES[name]
  return startSandbox({
    ...DEMO_LIMIT,
    seed: seed + seedStep,
    notFoundShare: 1 - knows,
    keys: [`${name}-key`],
    latencyAfterMs: [25, 140],
    // Matches results to emails in any order, however early they arrive.
    requestIds: 'email',
    jobDelayMs: [500, 2_000],
    // Not 500: a job that it answers may have been accepted, and waits for its deadline, too long for a demo.
    faults: {
      '503': 0.01,
      duplicate: 0.15,
      early: 0.1,
      'bad-signature': 0.1,
      'missing-result': 0.005,
      shuffle: 0.5,
    },
  })
}
