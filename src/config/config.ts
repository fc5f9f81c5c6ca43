import type { z } from 'zod'
import { type LookupBudget, type MixedBudget, toLookupBudget } from '../domain/spend.ts'
import type { ConfigSchema } from './schema.ts'

/** A configuration that has been checked, with every default filled in. `ConfigInput` says what each part means. */
export interface Config extends Omit<z.output<ConfigSchema>, 'views'> {
  /** The file it was loaded from. Null: from code. */
  readonly path: string | null
  /** The service's name in the configuration. Null: it has one service, which needs none. */
  readonly serviceName: string | null
  /** With several services: the names of all of them, in their order. */
  readonly serviceNames: readonly string[]
  /**
   * With several services: the configuration as each of them that serves a source sees it, in their order, with the sources that it serves and
   * what it fills of them. Empty: the configuration has one service, and is its own view.
   */
  readonly views: readonly Config[]
}

/** The configuration as each of its services sees it: of one without a name, the configuration itself. */
export const listViews = (config: Config): readonly Config[] =>
  config.views.length === 0 ? [config] : config.views

/** The budget of a run in lookups, where it is in money: at the price of its dearest service. */
export const lookupBudgetOf = (config: Pick<Config, 'budget' | 'price' | 'views'>): LookupBudget | null =>
  toLookupBudget(
    config.budget,
    (config.views.length === 0 ? [config] : config.views).map(({ price }) => price),
  )

/**
 * A budget in money whose lookups have several prices: each counts at its own. Null: all lookups count alike, as they do where a source
 * has a budget in lookups.
 */
export function mixedBudgetOf(
  config: Pick<Config, 'budget' | 'price' | 'views' | 'sources'>,
): MixedBudget | null {
  const { budget, sources } = config
  if (budget === null || typeof budget !== 'object') return null
  if (Object.values(sources).some((source) => typeof source.budget === 'number')) return null
  const prices = (config.views.length === 0 ? [config] : config.views).flatMap(({ price }) =>
    price === null ? [] : [price.person, price.company],
  )
  const highest = Math.max(...prices)
  return Math.min(...prices) === highest ? null : { ...budget, highest }
}

/** An entry of the schedule: when to run which sources. */
export type ScheduleEntry = Config['schedule'][number]

/** A receiver of notifications. */
export type NotifyTarget = Config['notify'][number]
