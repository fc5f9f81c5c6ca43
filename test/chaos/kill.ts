import { compare, type Damage } from './damage.ts'
import { CONCURRENCY, PRELOADED, finish, onTrial, passDeadlines, passTime, type Ground } from './ground.ts'

export interface Killed extends Damage {
  readonly point: string
  /** The process came to the point and died there. */
  readonly made: boolean
  /** Calls whose answers were lost, as the tables count them. */
  readonly inDoubt: number
}

/** Kills a run at a point with SIGKILL, lets another finish, and looks at what is there then. */
export async function killAt(ground: Ground, point: string, nth = 1): Promise<Killed> {
  const trial = await onTrial(ground, {
    variables: { ...PRELOADED, CHAOS_KILL_AT: point, CHAOS_KILL_NTH: String(nth) },
  })
  try {
    const made = trial.ended.code === null
    if (made) await passTime(trial.database)
    await finish(trial, 2_000)
    await passDeadlines(trial.database)
    await finish(trial, 30_000)
    const damage = await compare(trial.database.pool, trial.sandbox, ground.expected, CONCURRENCY)
    return { point, made, ...damage }
  } finally {
    await trial.close()
  }
}
