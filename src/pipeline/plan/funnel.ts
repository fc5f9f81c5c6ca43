import { cascades } from '../../domain/identifiers/kind.ts'
import { explainPageFailure } from '../../sources/page-failure.ts'
import { countEligible, countTable } from '../../sources/count.ts'
import type { Source } from '../../sources/source.ts'
import * as lookups from '../../store/lookups.ts'
import * as runs from '../../store/runs.ts'
import * as storedAnswers from '../../store/stored-answers.ts'
import { inTransaction } from '../../store/transaction.ts'
import type { Deps } from '../deps.ts'
import type { DiffRow } from '../dry-run/diff.ts'
import { readPage, type Candidate } from '../pick/candidates.ts'
import { choose, identifiers, lookupId, unusable, type Chosen } from '../pick/choose.ts'
import { suppressedRows } from '../pick/suppressed.ts'
import type { Questions } from './questions.ts'
import { sampleStored, type Answered } from './sample.ts'

/** What a run would do with one source's rows, each counted once: what is left out at a step and what goes on sum up. */
export interface SourcePlan {
  readonly source: string
  /** Rows of the table. */
  readonly table: number
  /** Left out by the source's filter and joins. */
  readonly filtered_out: number
  /** Left out by `--where`. */
  readonly where_out: number
  /** The eligible rows: what is left of the table. */
  readonly rows: number
  readonly complete: number
  readonly fresh: number
  readonly held: number
  readonly beyond_limit: number
  readonly picked: number
  /** Of the picked: without a usable input, by reason. */
  readonly invalid_input: Readonly<Record<string, number>>
  readonly suppressed: number
  /** Of the picked: those whose inputs make a question. */
  readonly valid_input: number
}

export interface FunnelOptions {
  readonly limit: number | null
  readonly where: string | null
  /** Rows to show with their values, of each source at the most. */
  readonly sample: number
  readonly signal: AbortSignal
}

const PAGE = 2_000

/** Goes through a source as a run would. @returns its funnel, and rows with what a stored record would put into them */
export async function planSource(
  deps: Pick<Deps, 'db' | 'rules' | 'service'>,
  source: Source,
  options: FunnelOptions,
  questions: Questions,
): Promise<{ funnel: SourcePlan; sample: DiffRow[] }> {
  const count = {
    rows: 0,
    complete: 0,
    fresh: 0,
    held: 0,
    beyond_limit: 0,
    picked: 0,
    suppressed: 0,
    valid_input: 0,
  }
  const invalid: Record<string, number> = {}
  const sample: DiffRow[] = []
  let after: string | null = null
  do {
    const page: PlannedPage = await planPage(deps, source, options, after)
    count.rows += page.scanned
    for (const fate of ['complete', 'fresh', 'held'] as const) count[fate] += page.fates[fate] ?? 0
    const answered: Answered[] = []
    for (const [place, way] of page.ways.entries()) {
      const { candidate } = way
      if (options.limit !== null && count.picked >= options.limit) count.beyond_limit++
      else if (!candidate.lacks) count.complete++
      else {
        count.picked++
        const end = page.suppressed.has(place) ? 'suppressed' : follow(way, page, questions)
        if (end === 'valid_input' || end === 'suppressed') count[end]++
        else if (end === 'invalid_input') invalid[way.reason] = (invalid[way.reason] ?? 0) + 1
        else {
          count.valid_input++
          answered.push({ candidate, lookup: end })
        }
      }
    }
    sample.push(...(await sampleStored(deps, source, answered, options.sample - sample.length)))
    after = page.next
    options.signal.throwIfAborted()
  } while (after !== null)
  const before = await countBefore(deps, source, options, count.rows)
  return { funnel: { source: source.name, ...before, ...count, invalid_input: invalid }, sample }
}

/** A row's usable identifiers in the order in which it would be asked by them. */
interface Way {
  readonly candidate: Candidate
  readonly lookups: readonly lookups.Wanted[]
  /** Why there is none. */
  readonly reason: string
}

interface PlannedPage {
  readonly fates: Awaited<ReturnType<typeof readPage>>['fates']
  readonly next: string | null
  readonly scanned: number
  readonly ways: readonly Way[]
  /** By the identifier of a lookup. */
  readonly costs: ReadonlySet<string>
  readonly missed: ReadonlySet<string>
  /** Of `ways`, by their place. */
  readonly suppressed: ReadonlySet<number>
}

async function planPage(
  deps: Pick<Deps, 'db' | 'rules' | 'service'>,
  source: Source,
  options: FunnelOptions,
  after: string | null,
): Promise<PlannedPage> {
  const { db, rules, service } = deps
  const live = (await runs.live(db)).map((run) => run.id)
  const page = await inTransaction(
    db,
    (tx) =>
      readPage(tx, source, { after, size: PAGE, where: options.where, changedSince: null, live, service }),
    rules.sourceTimeoutMs,
  ).catch(async (error: unknown) => {
    const failed = { after, limit: PAGE, where: options.where, changedSince: null }
    throw (await explainPageFailure(db, source, failed, error)) ?? error
  })
  const ways = page.candidates.map((candidate) => wayOf(source, candidate))
  const wanted = [...new Map(ways.flatMap((way) => way.lookups).map((one) => [lookupId(one), one])).values()]
  const those = (flags: readonly boolean[]): Set<string> =>
    new Set(wanted.filter((_, n) => flags[n]).map(lookupId))
  return {
    fates: page.fates,
    next: page.next,
    scanned: page.scanned,
    ways,
    costs: those(await lookups.wouldCost(db, wanted, live, service)),
    missed: those(cascades(source.mapping) ? await storedAnswers.missed(db, wanted, service) : []),
    suppressed: await suppressedRows(db, source, page.candidates),
  }
}

function wayOf(source: Source, candidate: Candidate): Way {
  const first = choose(source, candidate)
  const reason = first.lookup === null ? unusable(first.notes) : ''
  if (first.lookup === null || !cascades(source.mapping)) return { candidate, lookups: asList(first), reason }
  const tried = candidate.tried?.kinds ?? []
  const all = [...identifiers(source, candidate)].flatMap(asList)
  return { candidate, lookups: all.filter((lookup) => !tried.includes(lookup.kind)), reason }
}

const asList = ({ lookup }: Pick<Chosen, 'lookup'>): lookups.Wanted[] => (lookup === null ? [] : [lookup])

/** Where a row's way ends, as far as it is known before anything is asked: at a stored answer, or at a question. */
function follow(
  { candidate, lookups: way }: Way,
  page: PlannedPage,
  questions: Questions,
): 'invalid_input' | 'valid_input' | lookups.Wanted {
  if (way.length === 0) return candidate.tried === null ? 'invalid_input' : 'valid_input'
  for (const [n, lookup] of way.entries()) {
    const id = lookupId(lookup)
    const costs = page.costs.has(id)
    questions.want(lookup, costs)
    if (page.missed.has(id)) continue
    for (const next of way.slice(n + 1)) {
      if (page.costs.has(lookupId(next))) questions.wantAfter(next)
    }
    return costs ? 'valid_input' : lookup
  }
  return 'valid_input'
}

/** What the filters left out. Counted apart from the pages: what changes meanwhile counts as what was filtered out. */
async function countBefore(
  deps: Pick<Deps, 'db' | 'rules'>,
  source: Source,
  { where }: FunnelOptions,
  rows: number,
): Promise<Pick<SourcePlan, 'table' | 'filtered_out' | 'where_out'>> {
  const { table, eligible } = await inTransaction(
    deps.db,
    async (tx) => ({
      table: await countTable(tx, source),
      eligible: where === null ? rows : await countEligible(tx, source),
    }),
    deps.rules.sourceTimeoutMs,
  )
  const whereOut = Math.max(0, eligible - rows)
  const filteredOut = Math.max(0, table - rows - whereOut)
  return { table: rows + whereOut + filteredOut, filtered_out: filteredOut, where_out: whereOut }
}
