import type { FaultName, FaultPoint } from '../../src/sandbox/faults.ts'
import type { SandboxOptions } from '../../src/sandbox/options.ts'
import { compare } from './damage.ts'
import { CONCURRENCY, finish, onTrial, passDeadlines, type Ground } from './ground.ts'
import type { Survived } from './postgres-faults.ts'

/** What the service and the way to it can do to a delivery or a call. Where it pays again, that is the service's word. */
const FAULTS: Readonly<Record<string, Partial<SandboxOptions>>> = {
  'the 202 is lost': {
    faults: { 'drop-after': 1 },
    plan: (fault, { endpoint }) => fault === 'drop-after' && endpoint.endsWith('bulk'),
  },
  'the delivery comes before the 202': { faults: { early: 1 } },
  'every delivery comes twice at once': { faults: { duplicate: 1 }, duplicateMs: 0 },
  'deliveries badly signed first': { faults: { 'bad-signature': 1 } },
  'results for inputs never asked, shuffled': { faults: { 'foreign-result': 0.5, shuffle: 1 } },
  'answers 500 and 503': { faults: { '500': 0.1, '503': 0.05 }, plan: onlyOnce },
  'answers that are no records': { faults: { 'not-a-record': 0.1 }, plan: onlyOnce },
}

/** The third try of an input is minutes ahead: no trial waits for it. */
function onlyOnce(_: FaultName, { nth }: FaultPoint): false | undefined {
  return nth > 0 ? false : undefined
}

export function deliveryFaults(ground: Ground): (readonly [string, () => Promise<Survived>])[] {
  return Object.entries(FAULTS).map(([fault, sandbox]) => [fault, () => survive(ground, sandbox)] as const)
}

async function survive(ground: Ground, sandbox: Partial<SandboxOptions>): Promise<Survived> {
  const trial = await onTrial(ground, { sandbox: { jobDelayMs: [50, 200], ...sandbox } })
  try {
    const { code, stderr } = trial.ended
    await passDeadlines(trial.database)
    await finish(trial, 2_000)
    const { faults } = trial.sandbox.stats()
    const times = Object.values(faults).reduce((sum, made) => sum + made, 0)
    const damage = await compare(trial.database.pool, trial.sandbox, ground.expected, CONCURRENCY)
    return { times, code, stderr, ...damage }
  } finally {
    await trial.close()
  }
}
