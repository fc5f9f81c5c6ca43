import { type Config, lookupBudgetOf } from '../config/config.ts'
import { ConfigProblems, describeUnset } from '../config/problems.ts'
import type { RunSpec } from '../domain/run.ts'
import type { Deps } from '../pipeline/deps.ts'
import { checkWhere } from '../sources/check/expressions.ts'
import { SourceProblems } from '../sources/problems.ts'
import type { Source } from '../sources/source-model.ts'
import type { LookupBudget } from '../domain/spend.ts'
import { didYouMean, escapeRegExp, listNames } from '../util/text.ts'

/** Validation of requests against the configuration. All functions throw ConfigProblems. */

/** What is requested of a run or a plan, before it is checked against the configuration. */
export interface PassRequest extends Omit<RunSpec, 'budget'> {
  /** Maximum lookups to request. Undefined: the configuration's. */
  readonly budget?: LookupBudget | undefined
  /** Stops taking work: calls in flight finish, and the state is saved. */
  readonly signal: AbortSignal
}

type OpenedSources<One extends Source = Source> = Pick<Deps, 'brokenSources'> & {
  readonly sources: ReadonlyMap<string, One>
}

/**
 * @param names none means all sources that fit their tables, a pattern the sources that it matches
 * @throws ConfigProblems if a name is not configured; SourceProblems if it is broken
 */
export function chooseSources<One extends Source>(all: OpenedSources<One>, names: readonly string[]): One[] {
  if (names.length === 0) return [...all.sources.values()]
  return expandSourceNames(names, listConfigured(all))
    .filter((name) => names.includes(name) || !all.brokenSources?.has(name))
    .map((name) => chooseSource(all, name))
}

/**
 * The sources that words name. In a word `*` stands for any characters, which no name of a source contains.
 * @throws ConfigProblems if a word means none: no source at all would mean every one
 */
export function expandSourceNames(words: readonly string[], known: readonly string[]): string[] {
  const names = words.flatMap((word) => {
    const pattern = new RegExp(`^${word.split('*').map(escapeRegExp).join('.*')}$`)
    const matching = known.filter((name) => pattern.test(name))
    return matching.length === 0 ? refuseUnknownSource(word, known) : matching
  })
  return [...new Set(names)]
}

/** @throws ConfigProblems if the source is not configured; SourceProblems if it is broken */
export function chooseSource<One extends Source>(all: OpenedSources<One>, name: string): One {
  const source = all.sources.get(name)
  if (source) return source
  const broken = all.brokenSources?.get(name)
  if (broken) throw new SourceProblems(broken.problems)
  return refuseUnknownSource(name, listConfigured(all))
}

const listConfigured = ({ sources, brokenSources }: OpenedSources): string[] => [
  ...sources.keys(),
  ...(brokenSources?.keys() ?? []),
]

/** @throws ConfigProblems: of the known names, the nearest is suggested */
export const refuseUnknownSource = (name: string, known: readonly string[]): never =>
  refuseSource(name, 'no such source', `one of: ${listNames(known)}`, didYouMean(name, known))

/** @throws ConfigProblems */
export function refuseSource(name: string, found: string, expected: string, todo: string | null): never {
  throw requestProblem(`source ${name}`, found, expected, todo)
}

/** Requires an explicit budget: a run never spends by surprise. */
export function requireBudget(
  request: Pick<PassRequest, 'budget'>,
  config: Pick<Config, 'budget' | 'services'>,
): number | null {
  const budget = request.budget ?? lookupBudgetOf(config)
  if (budget === null)
    throw requestProblem(
      'budget',
      'none',
      'how many lookups this run may request',
      'give --budget N (or --budget unlimited), or set `budget` in the configuration. `fillrate plan` shows what a run would request',
    )
  return toBudgetLimit(budget)
}

/** @returns lookups; null for unlimited or none */
export const toBudgetLimit = (budget: LookupBudget | null): number | null =>
  budget === 'unlimited' ? null : budget

/**
 * The sources of a request. What is broken is left out, unless the request names nothing else.
 * @throws ConfigProblems if bulk is requested although it is off, or the condition is invalid for one of the sources
 */
export async function checkRequest<One extends Source>(
  all: OpenedSources<One> & Pick<Deps, 'db'>,
  { sources, where, route }: PassRequest,
  bulk: { readonly isPossible: boolean; readonly todo: string | null },
): Promise<One[]> {
  if (route === 'bulk' && !bulk.isPossible)
    throw requestProblem('--route', 'bulk', 'auto or sync, because bulk is off', bulk.todo)
  const fit = sources.filter((name) => !all.brokenSources?.has(name))
  const chosen = chooseSources(all, fit.length > 0 ? fit : sources)
  if (where !== null) for (const source of chosen) await checkWhere(all.db, source, where)
  return chosen
}

/** @throws ConfigProblems if the environment does not set the value */
export function requireSetting<T>(value: T | null, name: string, expected: string): T {
  if (value === null) throw new ConfigProblems('the environment', [describeUnset(name, expected)])
  return value
}

function requestProblem(
  place: string,
  found: string,
  expected: string,
  todo: string | null = null,
): ConfigProblems {
  return new ConfigProblems('the command and its environment', [{ place, found, expected, todo }])
}
