import { startSandbox, type Sandbox } from '../../sandbox/server.ts'
import type { DemoSettings } from './settings.ts'

/**
 * The enrichment service of the demo: the sandbox with a quota that is felt, and with what real services do wrong now
 * and then. It remembers nothing between two demos; the same question always gets the same answer.
 */
export function startService({ seed, limit }: DemoSettings): Promise<Sandbox> {
  return startSandbox({
    seed,
    keys: ['demo-key'],
    webhookSecret: 'demo-webhook-secret',
    limit,
    windowMs: 2_000,
    latencyBeforeMs: [5, 20],
    latencyAfterMs: [20, 120],
    // Which result belongs to which email can then be told, in whatever order and however early they come.
    requestIds: 'email',
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
