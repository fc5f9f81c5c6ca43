import type { FaultName, FaultPoint, SandboxOptions } from '../../src/sandbox/options.ts'
import { checkInvariants } from './invariants.ts'
import { finishRun, runTrial, expireDeadlines, type ChaosFixture } from './fixture.ts'
import type { FaultResult } from './postgres-faults.ts'

/** Faults of the service, or of the network to it, in a delivery or a call. */
const FAULTS: Readonly<Record<string, Partial<SandboxOptions>>> = {
  'the 202 is lost': {
    faults: { 'drop-after': 1 },
    plan: (fault, { endpoint }) => fault === 'drop-after' && endpoint.endsWith('bulk'),
  },
  'the delivery comes before the 202': { faults: { early: 1 } },
  'every delivery comes twice at once': { faults: { duplicate: 1 } },
  'deliveries badly signed first': { faults: { 'bad-signature': 1 } },
  'results for inputs never requested, shuffled': { faults: { 'foreign-result': 0.5, shuffle: 1 } },
  'answers 500 and 503': { faults: { '500': 0.1, '503': 0.05 }, plan: onlyOnce },
  'answers that are no records': { faults: { 'not-a-record': 0.1 }, plan: onlyOnce },
}

/** The third attempt at an input comes minutes later: no trial waits for it. */
function onlyOnce(_: FaultName, { nth }: FaultPoint): false | undefined {
  return nth > 0 ? false : undefined
}

export function deliveryFaults(fixture: ChaosFixture): (readonly [string, () => Promise<FaultResult>])[] {
  return Object.entries(FAULTS).map(
    ([fault, sandbox]) => [fault, () => runWithFault(fixture, sandbox)] as const,
  )
}

async function runWithFault(fixture: ChaosFixture, sandbox: Partial<SandboxOptions>): Promise<FaultResult> {
  const trial = await runTrial(fixture, { sandbox: { jobDelayMs: [50, 200], ...sandbox } })
  try {
    const { code, stderr } = trial.ended
    await expireDeadlines(trial.database)
    await finishRun(trial, 2_000)
    const { faults } = trial.sandbox.stats()
    const injected = Object.values(faults).reduce((sum, count) => sum + count, 0)
    const report = await checkInvariants(trial, fixture)
    return { faults: injected, code, stderr, ...report }
  } finally {
    await trial.close()
  }
}
