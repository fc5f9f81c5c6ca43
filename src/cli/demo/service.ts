import { startSandbox, type Sandbox } from '../../sandbox/server.ts'

/** Decides the people, the CRM, the records and the faults: the same in every demo. */
export const SEED = 7

/**
 * The enrichment service of the demo: the sandbox with a quota that is felt, and with what real services do wrong now
 * and then. It remembers nothing between two demos; the same question always gets the same answer.
 */
export function startService(): Promise<Sandbox> {
  return startSandbox({
    seed: SEED,
    keys: ['demo-key'],
    webhookSecret: 'demo-webhook-secret',
    limit: 100,
    windowMs: 2_000,
    latencyBeforeMs: [5, 20],
    latencyAfterMs: [20, 120],
    jobDelayMs: [500, 2_000],
    retryDelaysMs: [300, 1_000, 2_000, 5_000],
    faults: {
      '500': 0.02,
      '503': 0.01,
      '503-retry-after': 0.005,
      duplicate: 0.15,
      early: 0.1,
      'bad-signature': 0.1,
      'job-failed': 0.04,
      'missing-result': 0.005,
      shuffle: 0.5,
    },
    // A job answered 500 may have been taken, so it waits for its deadline; the demo has not that much time.
    plan: (fault, moment) =>
      moment.endpoint === 'POST /v1/person/bulk' && fault === '500' ? false : undefined,
  })
}
