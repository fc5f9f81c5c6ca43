import type { MixedBudget } from '../../domain/spend.ts'
import { isFit } from '../../runs/source-health.ts'
import { OnwardRows, type PlannedService } from './onward.ts'
import { createPlan, type Plan } from './plan.ts'
import { type PlannedChain, type PlannedParty, planServices, sumServicePlans } from './service-plan.ts'

/**
 * Plans a run with several services in order: the first service of each source is planned as if it were alone, and its rows are
 * followed to the services after it. Writes nothing and calls nothing.
 * @param parties the services in their order
 * @param budget the most lookups of all of them together; null: no limit
 */
export async function planInOrder(
  parties: readonly PlannedParty[],
  budget: number | null,
  mixed: MixedBudget | null,
): Promise<Plan> {
  const onward = new OnwardRows()
  const bySource = listServicesBySource(parties)
  const plans: Plan[] = []
  for (const { deps, options } of parties) {
    const isFirst = (name: string): boolean => bySource.get(name)?.[0]?.deps === deps
    const plan = await createPlan(deps, {
      ...options,
      sources: options.sources.filter(({ name }) => isFirst(name)),
      onPicked: (source, chains) => onward.add(bySource.get(source.name) ?? [], chains),
    })
    plans.push(plan)
  }
  const chains: PlannedChain[] = []
  for (const services of bySource.values())
    chains.push({
      parties: services.map(({ index }) => index),
      steps: onward.listSteps(services),
      budget: services[0]?.source.mapping.budget ?? null,
      kind: services[0]?.source.mapping.kind ?? 'person',
    })
  return {
    ...mergePlans(plans),
    ...toServices(parties, chains, budget, mixed),
  }
}

function toServices(
  parties: readonly PlannedParty[],
  chains: readonly PlannedChain[],
  budget: number | null,
  mixed: MixedBudget | null,
) {
  const services = planServices(parties, chains, budget, mixed)
  const wanted = planServices(
    parties.map((party) => ({ ...party, budget: null })),
    chains.map((chain) => ({ ...chain, budget: null })),
    null,
    null,
  )
  const prices = parties.map(({ deps }) => deps.policy.price)
  const { cost, ...sums } = sumServicePlans(services, prices, budget, mixed)
  const beyond = sumServicePlans(wanted, prices, null, null).cost.lookups - cost.lookups
  const { calls, time } = sums
  return { calls, cost: { ...cost, beyond_budget: Math.max(0, beyond) }, time, services }
}

/** The services of each source, in their order, as far as the source fits their mapping. */
function listServicesBySource(parties: readonly PlannedParty[]): Map<string, PlannedService[]> {
  const found = new Map<string, PlannedService[]>()
  for (const [index, { deps, options }] of parties.entries())
    for (const source of options.sources.filter(isFit))
      found.set(source.name, [...(found.get(source.name) ?? []), { deps, source, index }])
  const placeOf = ({ source: { mapping } }: PlannedService): number =>
    mapping.turn.services.indexOf(mapping.turn.service ?? '')
  for (const services of found.values()) services.sort((a, b) => placeOf(a) - placeOf(b))
  return found
}

/** What the plans of the first services say of rows. */
function mergePlans(plans: readonly Plan[]): Omit<Plan, 'calls' | 'cost' | 'time'> {
  const sum = (of: (plan: Plan) => number): number => plans.reduce((total, plan) => total + of(plan), 0)
  const kind = (name: keyof Plan['lookups']['to_request']): number =>
    sum(({ lookups }) => lookups.to_request[name])
  const leftOut = new Map(plans.flatMap((plan) => plan.left_out).map((one) => [one.source, one]))
  return {
    sources: plans.flatMap((plan) => plan.sources),
    paused: [...new Set(plans.flatMap((plan) => plan.paused))].sort(),
    left_out: [...leftOut.values()],
    lookups: {
      distinct: sum(({ lookups }) => lookups.distinct),
      stored: sum(({ lookups }) => lookups.stored),
      to_request: {
        email: kind('email'),
        linkedin_url: kind('linkedin_url'),
        name_company: kind('name_company'),
        domain: kind('domain'),
      },
      requested: sum(({ lookups }) => lookups.requested),
      is_estimate: plans.some(({ lookups }) => lookups.is_estimate),
    },
  }
}
