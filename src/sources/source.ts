import { maskServerText } from '../util/error-text.ts'
import type { SourceMapping } from '../domain/mapping.ts'
import { resolveOutputs, resolveTouches, resolveFreshness } from './check/cells.ts'
import { probeExpressions, scanExpressions, describeFix } from './check/expressions.ts'
import { resolveKey, findTable } from './check/table.ts'
import { checkPrivileges } from './check/privileges.ts'
import { checkRowSecurity } from './check/row-security.ts'
import { checkUnsearchedTypes } from './check/search-path.ts'
import { type Db, tryQuery } from './db.ts'
import { isCodedError } from './pg-errors.ts'
import { ProblemList, type SourceProblem, SourceProblems } from './problems.ts'
import type { Source } from './source-model.ts'
import { batchParameters } from './write/batch.ts'
import { rowUpdateStatement } from './write/statement.ts'
import { writeUpdate } from './write/write-update.ts'

/**
 * Checks a mapping against the live database. Reads the catalogue and plans statements; reads no row, writes nothing.
 * @throws SourceProblems with every problem that can be found at once
 */
export async function openSource(db: Db, mapping: SourceMapping): Promise<Source> {
  const { source, problems } = await resolveSource(db, mapping)
  if (source === null || problems.length > 0) throw new SourceProblems(problems)
  return source
}

/** The same without an exception: beside the problems, the source as far as it could be resolved, or null. */
export async function resolveSource(
  db: Db,
  mapping: SourceMapping,
): Promise<{ readonly source: Source | null; readonly problems: readonly SourceProblem[] }> {
  const report = new ProblemList(mapping.name)
  const { problems } = report
  if (!mapping.reviewed) {
    const { found, expected, todo } = NOT_REVIEWED
    report.add('reviewed', found, expected, todo)
  }
  scanExpressions(mapping, report)
  // An expression that could leave its parentheses is never sent to the database.
  const unsafe = new Set(problems.map((problem) => problem.place))
  const table = await findTable(db, mapping.table, report)
  if (table === null) return { source: null, problems }

  const key = resolveKey(table, mapping, report)
  const keyNames = key?.keyColumns.map((column) => column.name) ?? []
  const outputs = resolveOutputs(table, mapping, keyNames, report)
  const { touches, freshness } = resolveFreshness(
    table,
    mapping,
    resolveTouches(table, mapping, keyNames, report),
    keyNames,
    report,
  )
  await checkPrivileges(db, table, mapping, keyNames, { outputs, touches }, report)
  await checkRowSecurity(db, table, mapping, report)
  await checkUnsearchedTypes(db, table, mapping, report)
  const cells = { outputs, touches }
  const probed = unsafe.has('joins')
    ? null
    : await probeExpressions(db, table, mapping, cells, unsafe, report)
  if (key === null) return { source: null, problems }
  const source: Source = {
    name: mapping.name,
    mapping,
    table,
    ...key,
    outputs: probed?.outputs ?? outputs,
    touches,
    freshness: freshness && { ...freshness, kind: probed?.stamp ?? freshness.kind },
    changedAtType: probed?.changedAt ?? null,
  }
  if (problems.length === 0) await checkWritePlan(db, source, report)
  return { source, problems }
}

export const NOT_REVIEWED = {
  found: 'false: no person has read what `fillrate init` drafted',
  expected: 'a source that a person has read: whom it looks up, whom it leaves out, and what it fills',
  todo: 'Run `fillrate plan`, read the source and its comments, then take the line `reviewed: false` out.',
}

/** Plans the write, which finds problems that no part shows alone. */
async function checkWritePlan(db: Db, source: Source, report: ProblemList): Promise<void> {
  const update = writeUpdate(source)
  const statement = `explain ${rowUpdateStatement(source, update)}`
  const error = await tryQuery(db, statement, batchParameters(update.batch, []))
  if (error === null) return
  if (!isCodedError(error) || !/^(?:42|22|0A|21|55000)/.test(error.code)) throw error
  report.add(
    'outputs',
    maskServerText(error),
    'columns, expressions and a table that Postgres can plan the write with',
    describeFix(
      source.table,
      error,
      'Cast the expression to the type of its column, or take the column out.',
    ),
  )
}
