import fc from 'fast-check'
import type { TestDatabase } from '../../support/clone.ts'
import { Batch } from './batch.ts'
import { DRAWN } from './commands.ts'

/** Steps of a sequence. */
export const STEPS = 14

export interface Sequences {
  readonly database: TestDatabase
  /** Worlds of one batch: so many sequences at once. */
  readonly worlds: number
  readonly batches: number
  readonly seed?: number
  /** Told after each batch. */
  readonly onBatch?: () => void
}

/** Draws sequences and holds each against the model. @throws with the seed and what is wrong */
export async function checkSequences(options: Sequences): Promise<void> {
  const { database, worlds, batches, seed } = options
  const step = fc.tuple(
    fc.array(fc.nat(DRAWN), { minLength: worlds, maxLength: worlds, size: 'max' }),
    fc.nat(DRAWN),
  )
  const steps = fc.array(step, { minLength: STEPS, maxLength: STEPS, size: 'max' })
  await fc.assert(
    fc.asyncProperty(steps, async (drawn) => {
      const batch = await Batch.open(database, worlds)
      const faults: string[] = []
      try {
        for (const [commands, shared] of drawn) await batch.step(commands, shared)
        faults.push(...(await batch.judge()))
      } finally {
        await batch.close()
      }
      options.onBatch?.()
      if (faults.length > 0) throw new Error(faults.slice(0, 10).join('\n'))
    }),
    // Smaller sequences that fail as well would be looked for in a batch of hundreds: the seed repeats the whole.
    { numRuns: batches, endOnFailure: true, ...(seed !== undefined && { seed }) },
  )
}
