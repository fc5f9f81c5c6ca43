import fc from 'fast-check'
import type { TestDatabase } from '../../support/clone.ts'
import { Batch } from './batch.ts'
import { MAX_DRAWN } from './commands.ts'

/** Steps of a sequence. */
const STEPS = 14

export interface Sequences {
  readonly database: TestDatabase
  /** Sequences of one batch. */
  readonly worlds: number
  readonly batches: number
  readonly seed?: number
  /** Called after each batch. */
  readonly onBatch?: () => void
}

/** Draws sequences and compares each with the model. @throws with the seed and the violations */
export async function checkSequences(options: Sequences): Promise<void> {
  const { database, worlds, batches, seed } = options
  const step = fc.tuple(
    fc.array(fc.nat(MAX_DRAWN), { minLength: worlds, maxLength: worlds, size: 'max' }),
    fc.nat(MAX_DRAWN),
  )
  const steps = fc.array(step, { minLength: STEPS, maxLength: STEPS, size: 'max' })
  const checked = await fc.check(
    fc.asyncProperty(steps, async (drawn) => {
      const batch = await Batch.open(database, worlds)
      const violations: string[] = []
      try {
        for (const [commands, shared] of drawn) await batch.step(commands, shared)
        violations.push(...(await batch.findViolations()))
      } finally {
        await batch.close()
      }
      options.onBatch?.()
      if (violations.length > 0) throw new Error(violations.slice(0, 10).join('\n'))
    }),
    // No shrinking: it would search smaller batches of hundreds of sequences. The seed repeats the whole batch.
    { numRuns: batches, endOnFailure: true, ...(seed !== undefined && { seed }) },
  )
  // Without the counterexample: thousands of numbers.
  if (checked.failed)
    throw new Error(`batch ${checked.numRuns} of seed ${checked.seed}: ${String(checked.errorInstance)}`, {
      cause: checked.errorInstance,
    })
}
