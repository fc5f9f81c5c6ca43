import { setTimeout as sleep } from 'node:timers/promises'
import { compare } from './damage.ts'
import { CONCURRENCY, finish, onTrial, passDeadlines, passTime, type Ground } from './ground.ts'
import type { Survived } from './postgres-faults.ts'

/**
 * A process is stopped in the middle of its calls (SIGSTOP: a machine that sleeps, a container that is frozen) for longer
 * than its leases last. Another one finishes. Then it wakes up, with answers in its hands.
 */
export async function pause(ground: Ground): Promise<Survived> {
  const trial = await onTrial(ground, {
    sandbox: { latencyAfterMs: [150, 300], jobDelayMs: [100, 300] },
    during: async ({ child, ...its }) => {
      while (its.sandbox.stats().calls.accepted < 6) await sleep(20)
      child?.kill('SIGSTOP')
      await passTime(its.database)
      // Its receiver's address is its own: the deliveries of its jobs wait until it answers again.
      await finish({ ...its, port: 0 }, 1_000)
      child?.kill('SIGCONT')
    },
  })
  try {
    const { code, stderr } = trial.ended
    await finish(trial, 2_000)
    await passDeadlines(trial.database)
    await finish(trial, 10_000)
    const damage = await compare(trial.database.pool, trial.sandbox, ground.expected, CONCURRENCY)
    // It may end with 1, and say that it was taken for dead: its successor has done its work.
    return { times: 1, code: code === 1 && /taken for dead/.test(stderr) ? 0 : code, stderr, ...damage }
  } finally {
    await trial.close()
  }
}
