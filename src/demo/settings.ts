import { defineConfig } from '../config/define.ts'
import type { Duration } from '../config/define-service.ts'
import { startSandbox, type Sandbox } from '../sandbox/server.ts'

/** The size and duration of a demo: large enough to reach the rate limit, and done within a minute. */
export const FULL_DEMO = {
  /** Determines the companies, the people, the records and the faults. */
  seed: 7,
  accounts: 800,
  contacts: 5_000,
  /** Calls that the service allows in 2 s. */
  limit: 150,
  /**
   * Deadline of a job; afterwards its members are looked up singly. The sandbox loses its jobs when a demo is
   * interrupted, so the next demo would wait for them in vain.
   */
  jobDeadline: '15s' as Duration,
}

export type DemoSettings = Readonly<typeof FULL_DEMO>

/** The services of the demo, in their order: a cheap one, and a dearer one for those that it does not know. */
export const DEMO_SERVICES = {
  acme: { seedStep: 0, knows: 0.6, lookup: 0.05 },
  beta: { seedStep: 1, knows: 0.5, lookup: 0.2 },
} as const
export type DemoServiceName = keyof typeof DEMO_SERVICES
export const DEMO_SERVICE_NAMES = Object.keys(DEMO_SERVICES) as DemoServiceName[]

/** Why the demo cannot continue, and what to do about it. Printed as it is. */
export class DemoError extends Error {
  override readonly name = 'DemoError'
}

/** The demo's configuration, as in a fillrate.config file. */
export const demoConfig = ({ jobDeadline }: Pick<DemoSettings, 'jobDeadline'>) =>
  defineConfig({
    services: Object.fromEntries(
      DEMO_SERVICE_NAMES.map((name) => [
        name,
        {
          price: { currency: 'EUR', lookup: DEMO_SERVICES[name].lookup },
          bulk: { deadline: jobDeadline, grace: '1s' as const },
        },
      ]),
    ),
    sources: {
      accounts: {
        kind: 'company',
        table: 'crm.accounts',
        where: 't.archived_at is null',
        inputs: { domain: 't.website' },
        outputs: {
          industry: 'industry',
          employees: 'employee_count',
          revenue: 'revenue',
          city: 'location.city',
          country: 'location.country',
          technologies: 'technologies',
          'attributes.sub_industry': 'sub_industry',
        },
        touch: { updated_at: 'now()', enriched_at: 'now()' },
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
          seniority: {
            field: 'seniority',
            map: {
              c_suite: 'Executive',
              vp: 'VP',
              director: 'Director',
              manager: 'Manager',
              senior: 'Senior',
              entry: 'Entry',
            },
          },
          'attributes.department': 'department',
        },
        touch: { updated_at: 'now()', enriched_at: 'now()', match_confidence: '$confidence' },
      },
    },
    budget: 'unlimited',
  })

/**
 * An enrichment service of the demo: the sandbox with a low rate limit and typical faults. It keeps no state between
 * demos, but the same lookup always gets the same answer.
 */
export function startDemoService({ seed, limit }: DemoSettings, name: DemoServiceName): Promise<Sandbox> {
  const { seedStep, knows } = DEMO_SERVICES[name]
  return startSandbox({
    seed: seed + seedStep,
    notFoundShare: 1 - knows,
    keys: [`${name}-key`],
    webhookSecret: 'demo-webhook-secret',
    limit,
    windowMs: 2_000,
    latencyAfterMs: [25, 140],
    // Matches results to emails in any order, however early they arrive.
    requestIds: 'email',
    jobDelayMs: [500, 2_000],
    retryDelaysMs: [300, 1_000, 2_000, 5_000],
    faults: {
      '500': 0.02,
      '503': 0.01,
      duplicate: 0.15,
      early: 0.1,
      'bad-signature': 0.1,
      'job-failed': 0.04,
      'missing-result': 0.005,
      shuffle: 0.5,
    },
    // A job answered 500 may have been accepted and waits for its deadline, which takes too long for a demo.
    plan: (fault, moment) =>
      moment.endpoint === 'POST /v1/person/bulk' && fault === '500' ? false : undefined,
  })
}
