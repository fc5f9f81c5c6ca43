import type { Plan } from '../../../pipeline/plan.ts'
import { counted } from '../../../domain/numbers.ts'

/** Reasons of each source that are told by name. */
const NAMED = 2

/** The plan with only the most common reasons why a row can't be asked about; the others together. Pure. */
export function brief(plan: Plan): Plan {
  return {
    ...plan,
    sources: plan.sources.map((source) => {
      const reasons = Object.entries(source.invalid_input).sort(([, a], [, b]) => b - a)
      const rest = reasons.slice(NAMED)
      if (rest.length < 2) return source
      const together = rest.reduce((sum, [, rows]) => sum + rows, 0)
      return {
        ...source,
        invalid_input: Object.fromEntries([
          ...reasons.slice(0, NAMED),
          [`${counted(rest.length, 'other reason')}`, together],
        ]),
      }
    }),
  }
}
