import { type LookupBudget, type MixedBudget, toLookupBudget } from '../domain/spend.ts'
import type { resolveConfig } from './resolve.ts'

/** A configuration that has been checked, with every default filled in. `ConfigInput` says what each part means. */
export interface Config extends ReturnType<typeof resolveConfig> {
  /** The file it was loaded from. Null: from code. */
  readonly path: string | null
}

/** A service of the configuration that serves a source, with its settings. */
export type ConfigService = Config['services'][number]

type Priced = Pick<Config, 'budget' | 'services'>

/** The budget of a run in lookups, where it is in money: at the price of its dearest service. */
export const lookupBudgetOf = ({ budget, services }: Priced): LookupBudget | null =>
  toLookupBudget(
    budget,
    services.map(({ price }) => price),
  )

/**
 * A budget in money whose lookups have several prices: each counts at its own. Null: all lookups count alike, as they do where a source
 * has a budget in lookups.
 */
export function mixedBudgetOf({
  budget,
  services,
  sources,
}: Priced & Pick<Config, 'sources'>): MixedBudget | null {
  if (budget === null || typeof budget !== 'object') return null
  if (Object.values(sources).some((source) => source.budget !== null)) return null
  const prices = services.flatMap(({ price }) => (price === null ? [] : [price.person, price.company]))
  const highest = Math.max(...prices)
  return Math.min(...prices) === highest ? null : { ...budget, highest }
}

/** An entry of the schedule: when to run which sources. */
export type ScheduleEntry = Config['schedule'][number]

/** A receiver of notifications. */
export type NotifyTarget = Config['notify'][number]
