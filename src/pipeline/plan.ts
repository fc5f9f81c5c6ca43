import type { LookupKind } from '../domain/identifiers/kind.ts'
import type { RouteOption } from '../domain/route.ts'
import type { Source } from '../sources/source.ts'
import { matchesSoFar } from '../store/lookup-totals.ts'
import type { KnownLimit } from '../store/rate-limits.ts'
import * as pauses from '../store/pauses.ts'
import type { Deps } from './deps.ts'
import { fairShare, type DiffRow } from './dry-run/diff.ts'
import { callsFor, expectedFound, timeFor, type Calls, type Range } from './plan/cost.ts'
import { planSource, type SourcePlan } from './plan/funnel.ts'
import { Questions } from './plan/questions.ts'

export type { SourcePlan } from './plan/funnel.ts'

export interface PlanOptions {
  readonly sources: readonly Source[]
  readonly limit: number | null
  readonly budget: number | null
  readonly where: string | null
  readonly route: RouteOption
  readonly bulkPossible: boolean
  readonly knownLimit: KnownLimit | null
  /** So many rows are shown before and after, out of those whose records are stored already; null: none. */
  readonly sample?: number | null
  readonly signal: AbortSignal
}

export interface Plan {
  readonly sources: readonly SourcePlan[]
  /** Sources that a run would leave out, because somebody paused them. */
  readonly paused: readonly string[]
  readonly lookups: {
    /** Distinct questions of all sources together. */
    readonly distinct: number
    /** Answered already and still fresh, or asked by another run now: they cost nothing. */
    readonly stored: number
    readonly to_request: Readonly<Record<LookupKind, number>>
    readonly requested: number
  }
  readonly calls: Calls
  readonly cost: {
    /** Lookups that would be asked, within the budget. */
    readonly lookups: number
    /** The same, when every row of a cascade goes on to its last identifier. */
    readonly max_lookups: number
    readonly budget: number | null
    readonly beyond_budget: number
    /** The share of lookups that found something so far; null before the first. */
    readonly match_rate: number | null
    readonly expected_found: number | null
    /** Between how many it will lie, most likely. */
    readonly found_range: Range | null
  }
  readonly time: {
    readonly limit: number | null
    readonly window_ms: number | null
    /** How long the calls take at the limit last known; null when it is not known. */
    readonly ms: number | null
    /** The same for `cost.most`. */
    readonly max_ms: number | null
  }
  readonly sample?: readonly DiffRow[]
}

/** Tells what a run would pick, ask and cost, by the same steps as a run. Writes nothing and calls nothing. */
export async function plan(
  deps: Pick<Deps, 'db' | 'rules' | 'service'>,
  options: PlanOptions,
): Promise<Plan> {
  const { knownLimit, sample = null } = options
  const questions = new Questions()
  const sources: SourcePlan[] = []
  const samples: DiffRow[][] = []
  const paused = await pauses.among(
    deps.db,
    options.sources.map((source) => source.name),
  )
  for (const source of options.sources.filter(({ name }) => !paused.includes(name))) {
    const planned = await planSource(deps, source, { ...options, sample: sample ?? 0 }, questions)
    sources.push(planned.funnel)
    samples.push(planned.sample)
  }

  const { distinct, asked: requested, askedAtMost } = questions
  const byKind = questions.byKind()
  const calls = callsFor(byKind, options, deps.rules.bulkMinimum)
  const soFar = await matchesSoFar(deps.db, deps.service)
  const budget = options.budget ?? Number.POSITIVE_INFINITY
  const cost = Math.min(requested, budget)
  const matchRate = soFar.asked === 0 ? null : soFar.found / soFar.asked
  return {
    sources,
    paused,
    lookups: { distinct, stored: distinct - requested, to_request: byKind, requested },
    calls,
    cost: {
      lookups: cost,
      max_lookups: Math.min(askedAtMost, budget),
      budget: options.budget,
      beyond_budget: requested - cost,
      match_rate: matchRate,
      expected_found: matchRate === null ? null : Math.round(cost * matchRate),
      found_range: expectedFound(cost, soFar),
    },
    time: {
      limit: knownLimit?.limit ?? null,
      window_ms: knownLimit?.windowMs ?? null,
      ms: timeFor(calls.total, knownLimit),
      // What comes after a miss is asked singly.
      max_ms: timeFor(calls.total + askedAtMost - requested, knownLimit),
    },
    ...(sample !== null && { sample: fairShare(samples, sample) }),
  }
}
