import type { Problem } from '../../config/problems.ts'
import type { SourceMapping } from '../../domain/mapping.ts'
import { describeSource } from '../../sources/describe-source.ts'
import { explainPageFailure } from '../../sources/page-failure.ts'
import { findMisfits } from '../../sources/check/fit.ts'
import { resolveSteps } from '../../sources/open-sources.ts'
import { NOT_REVIEWED } from '../../sources/source.ts'
import type { Source } from '../../sources/source-model.ts'
import { showFound } from '../../sources/problems.ts'
import { FIRST_PAGE, findVolatileInputs, type InputRow, readInputs } from '../../sources/volatile-inputs.ts'
import type { Database } from '../../store/open.ts'
import { inTransaction } from '../../store/transaction.ts'
import { pluralize } from '../../util/format.ts'
import { QUERY_CANCELED, sqlStateOf } from '../../util/sqlstates.ts'
import { type Finding, createFinding, createMixedFinding, toFinding } from './finding.ts'
import { readTriggerState } from '../../sources/triggers/install.ts'

/** The timeout of queries on a source's table, in milliseconds: a person is waiting, and the table is in use. */
const CHECK_MS = 10_000

/**
 * Checks a source against the database: names, types, privileges and expressions, whether the fields can fit their columns,
 * then rows and query plans. Each problem has a verdict of its own: what can never work is an error.
 */
export async function checkSource(
  db: Database,
  mapping: SourceMapping,
  env: NodeJS.ProcessEnv,
): Promise<Finding> {
  const name = `source ${mapping.name}`
  try {
    const { steps, problems } = await resolveSteps(db, { ...mapping, reviewed: true })
    const others = problems.filter(({ grant }) => grant === undefined)
    const misfits = steps
      .flatMap(findMisfits)
      .filter(({ place }) => !others.some((one) => place === one.place || one.place.startsWith(`${place}.`)))
    const errors: Problem[] = [...problems, ...misfits.map((one) => ({ source: mapping.name, ...one }))]
    const warnings: Problem[] = []
    if (!mapping.reviewed) warnings.push({ place: `sources.${mapping.name}.reviewed`, ...NOT_REVIEWED })
    const [source] = steps
    if (source !== undefined && problems.length === 0) {
      const rows = await wrongRows(db, source)
      errors.push(...rows.map((one) => ({ ...one, found: showFound(one) })))
      // The plan and the data are of interest once the rows can be read.
      if (rows.length === 0)
        warnings.push(...(await inTransaction(db, (tx) => describeSource(tx, source), CHECK_MS)))
    }
    const text = `${mapping.table}, ${pluralize(mapping.outputs.length, 'column')} to fill`
    return createMixedFinding(name, text, errors, warnings)
  } catch (error) {
    if (sqlStateOf(error) === QUERY_CANCELED)
      return createFinding(name, 'warning', mapping.table, { problems: [tooSlow] })
    return toFinding(name, error, env)
  }
}

/** Checks the first rows: joins that duplicate rows, expressions that fail or are volatile. */
async function wrongRows(
  db: Database,
  source: Source,
): Promise<ReadonlyArray<Problem & { readonly key?: string }>> {
  const read = (of: readonly InputRow[] | null): Promise<readonly InputRow[]> =>
    inTransaction(db, (tx) => readInputs(tx, source, of), CHECK_MS)
  try {
    const first = await read(null)
    const readings = [first, await read(first)]
    // Read once more only where they differ: a single change may be a user's.
    if (findVolatileInputs(source, readings).length === 0) return []
    return findVolatileInputs(source, [...readings, await read(first)])
  } catch (error) {
    const problems = await explainPageFailure(db, source, FIRST_PAGE, error)
    if (problems === null) throw error
    return problems.problems
  }
}

const tooSlow: Problem = {
  place: 'table',
  found: `reading its first rows took longer than ${CHECK_MS / 1_000} s; the rest was not checked`,
  expected: 'pages of 1,000 rows within milliseconds',
  todo: 'Look for a missing index for `joins` and sub-selects of the inputs, or for a lock on the table.',
}

/** Checks the triggers of a source with live sync. Without them it may still be polled by `changedAt`. */
export async function checkTriggers(db: Database, source: Source): Promise<Finding> {
  const name = `follow ${source.name}`
  const there = await readTriggerState(db, source)
  if (there.state === 'right') return createFinding(name, 'ok', 'triggers installed')
  const why = there.state === 'missing' ? 'triggers not installed' : there.why
  const todo = `Run \`fillrate follow install ${source.name}\`.`
  const isPolled = source.mapping.changedAt !== null
  return isPolled
    ? createFinding(name, 'warning', `${why}: it is polled by changedAt`, { todo })
    : createFinding(name, 'error', why, { todo })
}
