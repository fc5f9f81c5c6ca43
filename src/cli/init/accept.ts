import { parseConfig } from '../../config/parse.ts'
import { coverage as countCoverage, type Coverage } from '../../sources/coverage.ts'
import { SourceProblems, type SourceProblem } from '../../sources/problems.ts'
import type { PassedOver, ProposedSource } from '../../sources/propose/proposal.ts'
import { openSource, type Source } from '../../sources/source.ts'
import type { Database } from '../../store/open.ts'
import { inTransaction } from '../../store/transaction.ts'
import { sourceObject } from './config-object.ts'

/** A proposed source that the database takes. */
export interface Accepted {
  readonly source: ProposedSource
  /** Null where it takes too long to count. */
  readonly coverage: Coverage | null
}

/** Counting reads the whole table; a big one is not worth waiting longer for. */
const COVERAGE_TIMEOUT_MS = 10_000
const QUERY_CANCELED = '57014'

/**
 * Holds a proposal against the database as every other command will, and counts what its columns hold now. What does not
 * pass is taken out of it.
 */
export async function accept(db: Database, source: ProposedSource): Promise<Accepted | PassedOver> {
  const opened = await open(db, source)
  if (opened.problems === null) return { source, coverage: await coverageOf(db, opened.source) }
  const { problems } = opened
  const outputs = source.outputs.filter(
    ({ column }) =>
      !problems.some(({ place }) => place === `outputs.${column}` || place.startsWith(`outputs.${column}.`)),
  )
  const [first] = problems
  if (outputs.length === 0 || outputs.length === source.outputs.length)
    return { table: source.table, why: first === undefined ? 'it has no column to fill' : inWords(first) }
  return accept(db, { ...source, outputs: withoutLoneGroups(outputs) })
}

type Opened =
  | { readonly source: Source; readonly problems: null }
  | { readonly problems: readonly SourceProblem[] }

async function open(db: Database, source: ProposedSource): Promise<Opened> {
  const mapping = parseConfig({ sources: { [source.name]: sourceObject(source) } }, null).sources[source.name]
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

const inWords = ({ place, found, todo }: SourceProblem): string =>
  `${place}: ${found.split('\n').at(-1) ?? found}. ${todo}`

async function coverageOf(db: Database, source: Source): Promise<Coverage | null> {
  try {
    return await inTransaction(db, (tx) => countCoverage(tx, source), COVERAGE_TIMEOUT_MS)
  } catch (error) {
    if ((error as { code?: string }).code === QUERY_CANCELED) return null
    throw error
  }
}
