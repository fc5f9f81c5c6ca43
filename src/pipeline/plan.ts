import { JOB_SIZE } from '../domain/job.ts'
import { routeEmails, type RouteOption } from '../domain/route.ts'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import type { Source } from '../sources/source.ts'
import { matchesSoFar } from '../store/lookup-totals.ts'
import * as lookups from '../store/lookups.ts'
import type { KnownLimit } from '../store/rate-limits.ts'
import * as runs from '../store/runs.ts'
import { areSuppressed } from '../store/suppressions.ts'
import { inTransaction } from '../store/transaction.ts'
import type { Deps } from './deps.ts'
import { readPage, type Page } from './pick/candidates.ts'
import { choose, distinctLookups, lookupId, unusable } from './pick/choose.ts'

export interface PlanOptions {
  readonly sources: readonly Source[]
  readonly limit: number | null
  readonly budget: number | null
  readonly where: string | null
  readonly route: RouteOption
  readonly bulkPossible: boolean
  readonly knownLimit: KnownLimit | null
  readonly signal: AbortSignal
}

/** What a run would do with one source's rows. Every row of the source is counted once: the counts sum to `rows`. */
export interface SourcePlan {
  readonly source: string
  /** Rows that the source's filter and `--where` let through. */
  readonly rows: number
  readonly complete: number
  readonly settled: number
  readonly held: number
  readonly beyond_limit: number
  readonly picked: number
  /** Of the picked: without a usable input, by reason. */
  readonly invalid_input: Readonly<Record<string, number>>
  readonly suppressed: number
  /** Of the picked: those whose inputs make a question. */
  readonly askable: number
}

export interface Plan {
  readonly sources: readonly SourcePlan[]
  readonly lookups: {
    /** Distinct questions of all sources together. */
    readonly distinct: number
    /** Answered already and still fresh, or asked by another run now: they cost nothing. */
    readonly stored: number
    readonly to_ask: Readonly<Record<LookupKind, number>>
    readonly asked: number
  }
  readonly calls: {
    readonly person: number
    readonly company: number
    readonly bulk: number
    readonly total: number
  }
  readonly cost: {
    /** Lookups that would be asked, within the budget. */
    readonly lookups: number
    readonly budget: number | null
    readonly beyond_budget: number
    /** The share of lookups that found something so far; null before the first. */
    readonly match_rate: number | null
    readonly expected_found: number | null
  }
  readonly time: {
    readonly limit: number | null
    readonly window_ms: number | null
    /** How long the calls take at the limit last known; null when it is not known. */
    readonly ms: number | null
  }
}

const PAGE = 2_000

/** Tells what a run would pick, ask and cost, by the same steps as a run. Writes nothing and calls nothing. */
export async function plan(deps: Pick<Deps, 'db' | 'rules'>, options: PlanOptions): Promise<Plan> {
  const toAsk = new Map<string, LookupKind>()
  const distinct = new Set<string>()
  const sources: SourcePlan[] = []
  for (const source of options.sources) sources.push(await planSource(deps, source, options, distinct, toAsk))

  const byKind: Record<LookupKind, number> = { email: 0, linkedin_url: 0, name_company: 0, domain: 0 }
  for (const kind of toAsk.values()) byKind[kind]++
  const calls = callsFor(byKind, options, deps.rules.bulkMinimum)
  const { found, asked } = await matchesSoFar(deps.db)
  const cost = Math.min(toAsk.size, options.budget ?? toAsk.size)
  const matchRate = asked === 0 ? null : found / asked
  return {
    sources,
    lookups: {
      distinct: distinct.size,
      stored: distinct.size - toAsk.size,
      to_ask: byKind,
      asked: toAsk.size,
    },
    calls,
    cost: {
      lookups: cost,
      budget: options.budget,
      beyond_budget: toAsk.size - cost,
      match_rate: matchRate,
      expected_found: matchRate === null ? null : Math.round(cost * matchRate),
    },
    time: timeFor(calls.total, options.knownLimit),
  }
}

async function planSource(
  deps: Pick<Deps, 'db' | 'rules'>,
  source: Source,
  options: PlanOptions,
  distinct: Set<string>,
  toAsk: Map<string, LookupKind>,
): Promise<SourcePlan> {
  const count = {
    rows: 0,
    complete: 0,
    settled: 0,
    held: 0,
    beyond_limit: 0,
    picked: 0,
    suppressed: 0,
    askable: 0,
  }
  const invalid: Record<string, number> = {}
  let after: string | null = null
  do {
    const { page, costs, suppressed, chosen } = await planPage(deps, source, options, after)
    count.rows += page.scanned
    for (const fate of ['complete', 'settled', 'held'] as const) count[fate] += page.fates[fate] ?? 0
    for (const one of chosen) {
      if (options.limit !== null && count.picked >= options.limit) {
        count.beyond_limit++
        continue
      }
      if (!one.candidate.lacks) {
        count.complete++
        continue
      }
      count.picked++
      if (one.lookup === null) {
        const reason = unusable(one.notes)
        invalid[reason] = (invalid[reason] ?? 0) + 1
      } else if (suppressed.has(lookupId(one.lookup))) count.suppressed++
      else {
        count.askable++
        const id = lookupId(one.lookup)
        distinct.add(id)
        if (costs.has(id)) toAsk.set(id, one.lookup.kind)
      }
    }
    after = page.next
    options.signal.throwIfAborted()
  } while (after !== null)
  return { source: source.name, ...count, invalid_input: invalid }
}

async function planPage(
  deps: Pick<Deps, 'db' | 'rules'>,
  source: Source,
  options: PlanOptions,
  after: string | null,
): Promise<{
  page: Page
  chosen: ReturnType<typeof choose>[]
  costs: ReadonlySet<string>
  suppressed: ReadonlySet<string>
}> {
  const live = (await runs.live(deps.db)).map((run) => run.id)
  const page = await inTransaction(
    deps.db,
    (tx) => readPage(tx, source, { after, size: PAGE, where: options.where, changedSince: null, live }),
    deps.rules.sourceTimeoutMs,
  )
  const chosen = page.candidates.map((candidate) => choose(source, candidate))
  const wanted = [...distinctLookups(chosen).values()]
  const costs = await lookups.wouldCost(deps.db, wanted, live)
  const suppressed = await areSuppressed(deps.db, wanted)
  return {
    page,
    chosen,
    costs: new Set(wanted.filter((_, n) => costs[n]).map(lookupId)),
    suppressed: new Set(wanted.filter((_, n) => suppressed[n]).map(lookupId)),
  }
}

/** Calls by route, as a run would make them. Pure. */
export function callsFor(
  toAsk: Readonly<Record<LookupKind, number>>,
  options: Pick<PlanOptions, 'route' | 'bulkPossible'>,
  minimum: number,
): Plan['calls'] {
  const { bulkFrom, singly } = routeEmails({
    option: options.route,
    bulkPossible: options.bulkPossible,
    picking: false,
    minimum,
  })
  const rest = toAsk.email % JOB_SIZE
  const full = (toAsk.email - rest) / JOB_SIZE
  const inBulk = bulkFrom === null ? 0 : full + (rest >= Math.min(bulkFrom, JOB_SIZE) ? 1 : 0)
  const emails = bulkFrom === null ? toAsk.email : Math.max(0, toAsk.email - inBulk * JOB_SIZE)
  const person = toAsk.linkedin_url + toAsk.name_company + (singly === 'never' ? 0 : emails)
  return { person, company: toAsk.domain, bulk: inBulk, total: person + toAsk.domain + inBulk }
}

function timeFor(calls: number, known: KnownLimit | null): Plan['time'] {
  if (known === null || known.windowMs === null || known.limit === 0)
    return { limit: known?.limit ?? null, window_ms: known?.windowMs ?? null, ms: null }
  const windows = Math.max(0, Math.ceil(calls / known.limit) - 1)
  return { limit: known.limit, window_ms: known.windowMs, ms: windows * known.windowMs }
}
