import { parseConfig } from '../config/parse.ts'
import type { GivenService } from '../config/service.ts'
import { countFilled as countCoverage, type FillCounts } from '../sources/fill-counts.ts'
import { mergeGrantProblems, showFound, SourceProblems, type SourceProblem } from '../sources/problems.ts'
import { type Db, query } from '../sources/db.ts'
import type { SkippedTable, ProposedSource } from './proposal.ts'
import { openSource } from '../sources/source.ts'
import { describeHiddenRows, mayHideRows } from '../sources/row-security.ts'
import type { Source } from '../sources/source-model.ts'
import type { Database } from '../store/open.ts'
import { inTransaction } from '../store/transaction.ts'
import { QUERY_CANCELED, sqlStateOf } from '../util/sqlstates.ts'
import { toSourceConfig } from './config-object.ts'

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
  service: GivenService | null = null,
): Promise<AcceptedSource | SkippedTable> {
  // A service of its own may have no field for the rest of a group.
  const source = { ...proposed, outputs: withoutLoneGroups(proposed.outputs) }
  const opened = await tryOpenSource(db, source, service)
  if (opened.problems === null) {
    const hidden = await inTransaction(db, (tx) => findHiddenTable(tx, opened.source))
    if (hidden !== null) return { table: source.table, reason: hidden }
    return { source, coverage: await countFilledColumns(db, opened.source), isReviewed: false }
  }
  const { problems } = opened
  const outputs = source.outputs.filter(
    ({ column }) =>
      !problems.some(({ place }) => place === `outputs.${column}` || place.startsWith(`outputs.${column}.`)),
  )
  const [first] = mergeGrantProblems(problems)
  if (outputs.length === 0 || outputs.length === source.outputs.length)
    return {
      table: source.table,
      reason: first === undefined ? 'it has no column to fill' : describeSourceProblem(first),
    }
  return verifyProposedSource(db, { ...source, outputs }, service)
}

/** A table without a row that this role may read was not sampled: what is proposed for it is a guess by names alone. */
async function findHiddenTable(db: Db, source: Source): Promise<string | null> {
  const rows = await query(db, `select from ${source.table.sql} limit 1`)
  if (rows.length > 0 || !(await mayHideRows(db, source))) return null
  return `no row that this role may read: row-level security may hide them. ${await describeHiddenRows(db, source)}`
}

type Opened =
  | { readonly source: Source; readonly problems: null }
  | { readonly problems: readonly SourceProblem[] }

async function tryOpenSource(
  db: Database,
  source: ProposedSource,
  service: GivenService | null,
): Promise<Opened> {
  const config = { sources: { [source.name]: toSourceConfig(source) } }
  const { sources } =
    service === null
      ? parseConfig(config, null)
      : parseConfig({ ...config, service: service.place }, null, new Map([[service.place, service]]))
  const mapping = sources[source.name]
  if (mapping === undefined) throw new Error(`source ${source.name} was lost`)
  try {
    return { source: await openSource(db, mapping), problems: null }
  } catch (error) {
    if (error instanceof SourceProblems) return { problems: error.problems }
    throw error
  }
}

const withoutLoneGroups = (outputs: ProposedSource['outputs']): ProposedSource['outputs'] =>
  outputs.map((output) => {
    const { group, ...rest } = output
    return outputs.filter((one) => one.group === group).length > 1 ? output : rest
  })

const describeSourceProblem = (problem: SourceProblem): string =>
  `${problem.place}: ${showFound(problem).split('\n').at(-1) ?? ''}. ${problem.todo}`

async function countFilledColumns(db: Database, source: Source): Promise<FillCounts | null> {
  try {
    return await inTransaction(db, (tx) => countCoverage(tx, source), FILL_RATE_TIMEOUT_MS)
  } catch (error) {
    if (sqlStateOf(error) === QUERY_CANCELED) return null
    throw error
  }
}
