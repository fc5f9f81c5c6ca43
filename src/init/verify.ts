import pLimit from 'p-limit'
import { MAX_READERS } from './introspect.ts'
import { parseConfig } from '../config/parse.ts'
import { listViews } from '../config/config.ts'
import { countFilled as countCoverage, type FillCounts } from '../sources/fill-counts.ts'
import { mergeGrantProblems, showFound, type SourceProblem } from '../sources/problems.ts'
import { type Db, query } from '../sources/db.ts'
import type { FoundServices, SkippedTable, ProposedSource } from './proposal.ts'
import { resolveSource } from '../sources/source.ts'
import { describeHiddenRows, mayHideRows } from '../sources/row-security.ts'
import type { Source } from '../sources/source-model.ts'
import type { Database } from '../store/open.ts'
import { inTransaction } from '../store/transaction.ts'
import { QUERY_CANCELED, sqlStateOf } from '../util/sqlstates.ts'
import { toServicesConfig, toSourceConfig } from './config-object.ts'
import { BUILT_IN_ONLY } from './services.ts'

/** A proposed source that passed all checks against the database. */
export interface AcceptedSource {
  readonly source: ProposedSource
  /** Null if counting takes too long. */
  readonly coverage: FillCounts | null
  /** Whether a person has confirmed it, at the prompt. */
  readonly isReviewed: boolean
}

/** Counting reads the whole table; a longer wait is not worth it. */
const FILL_RATE_TIMEOUT_MS = 10_000

/**
 * Checks a proposal against the database as every other command does, and counts the filled cells. Removes outputs
 * that fail a check.
 */
export async function verifyProposedSource(
  db: Database,
  proposed: ProposedSource,
  services: FoundServices = BUILT_IN_ONLY,
): Promise<AcceptedSource | SkippedTable> {
  const source = { ...proposed, outputs: withoutLoneGroups(proposed.outputs) }
  const { table } = source
  const { opened, problems } = await openViews(db, source, services)
  if (opened !== null) {
    const hidden = await inTransaction(db, (tx) => findHiddenTable(tx, opened))
    return hidden === null
      ? { source, coverage: await countFilledColumns(db, opened), isReviewed: false }
      : { table, reason: hidden }
  }
  const outputs = source.outputs.filter(
    ({ column }) => !problems.some(({ place }) => `${place}.`.startsWith(`outputs.${column}.`)),
  )
  if (outputs.length > 0 && outputs.length < source.outputs.length)
    return verifyProposedSource(db, { ...source, outputs }, services)
  const [first] = mergeGrantProblems(problems)
  const found = first && showFound(first).split('\n').at(-1)
  return { table, reason: first ? `${first.place}: ${found}. ${first.todo}` : 'it has no column to fill' }
}

/** Checks several, some at the same time. */
export function verifyProposedSources(
  db: Database,
  sources: readonly ProposedSource[],
  services: FoundServices,
): Promise<Array<AcceptedSource | SkippedTable>> {
  const limit = pLimit(MAX_READERS)
  return Promise.all(sources.map((source) => limit(() => verifyProposedSource(db, source, services))))
}

/** A table without a row that this role may read was not sampled: what is proposed for it is a guess by names alone. */
async function findHiddenTable(db: Db, source: Source): Promise<string | null> {
  const rows = await query(db, `select from ${source.table.sql} limit 1`)
  if (rows.length > 0 || !(await mayHideRows(db, source))) return null
  return `no row that this role may read: row-level security may hide them. ${await describeHiddenRows(db, source)}`
}

/** The source as each of the services sees it: one of them, or the problems of all. */
async function openViews(
  db: Database,
  source: ProposedSource,
  found: FoundServices,
): Promise<{ readonly opened: Source | null; readonly problems: readonly SourceProblem[] }> {
  const modules = found.services.flatMap(({ module, given }) =>
    module && given ? [[module, given] as const] : [],
  )
  const config = { ...toServicesConfig(found), sources: { [source.name]: toSourceConfig(source) } }
  const views = listViews(parseConfig(config, null, new Map(modules)))
  let opened: Source | null = null
  const problems: SourceProblem[] = []
  for (const mapping of views.flatMap(({ sources }) => sources[source.name] ?? [])) {
    const view = await resolveSource(db, mapping)
    opened ??= view.source
    problems.push(...view.problems)
  }
  return { opened: problems.length === 0 ? opened : null, problems }
}

/** A service may have no field for the rest of a group. */
const withoutLoneGroups = (outputs: ProposedSource['outputs']): ProposedSource['outputs'] =>
  outputs.map((output) => {
    const { group, ...rest } = output
    return outputs.filter((one) => one.group === group).length > 1 ? output : rest
  })

async function countFilledColumns(db: Database, source: Source): Promise<FillCounts | null> {
  try {
    return await inTransaction(db, (tx) => countCoverage(tx, source), FILL_RATE_TIMEOUT_MS)
  } catch (error) {
    if (sqlStateOf(error) === QUERY_CANCELED) return null
    throw error
  }
}
