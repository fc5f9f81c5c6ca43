import type { Problem } from '../../config/problems.ts'
import type { SourceMapping } from '../../domain/mapping.ts'
import { findMisfits } from '../../sources/check/fit.ts'
import { listReferences } from '../../sources/check/references.ts'
import { type Db, query } from '../../sources/db.ts'
import { listConditions } from '../../sources/expression.ts'
import { eligibleSql, joinsSql } from '../../sources/inputs.ts'
import { resolveSteps } from '../../sources/open-sources.ts'
import { explainPageFailure } from '../../sources/page-failure.ts'
import { pageQuery, type SourcePageOptions } from '../../sources/page.ts'
import { showFound, type SourceProblem } from '../../sources/problems.ts'
import { quoteLiteral } from '../../sources/quote.ts'
import { mayHideRows } from '../../sources/row-security.ts'
import { NOT_REVIEWED } from '../../sources/source.ts'
import type { Source } from '../../sources/source-model.ts'
import { readTriggerState } from '../../sources/triggers/install.ts'
import type { Database } from '../../store/open.ts'
import { inTransaction } from '../../store/transaction.ts'
import { pluralize } from '../../util/format.ts'
import { QUERY_CANCELED, sqlStateOf } from '../../util/sqlstates.ts'
import { listNames } from '../../util/text.ts'
import { type Finding, createFailedFinding, createFinding, toFinding } from './finding.ts'

/** The timeout of queries on a source's table, in milliseconds: a person is waiting, and the table is in use. */
const CHECK_MS = 10_000

/**
 * Checks a source against the database: names, types, privileges and expressions, whether the fields can fit their columns,
 * then its first rows. What can never work is an error, and hides what is only worth a warning.
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
      const wrong = await findWrongRows(db, source)
      errors.push(...wrong.map((one) => ({ ...one, found: showFound(one) })))
      warnings.push(...findTouchedConditions(source))
      if (wrong.length === 0)
        warnings.push(...(await inTransaction(db, (tx) => explainNoRows(tx, source), CHECK_MS)))
    }
    const text = `${mapping.table}, ${pluralize(mapping.outputs.length, 'column')} to fill`
    if (errors.length > 0) return createFailedFinding(name, ...errors)
    return createFinding(name, warnings.length > 0 ? 'warning' : 'ok', text, { problems: warnings })
  } catch (error) {
    if (sqlStateOf(error) === QUERY_CANCELED)
      return createFinding(name, 'warning', mapping.table, { problems: [tooSlow] })
    return toFinding(name, error, env)
  }
}

const FIRST_PAGE: SourcePageOptions = { after: null, limit: 200, where: null, changedSince: null }

/** Reads the first rows: joins may multiply them, and an expression may fail on one of them. */
async function findWrongRows(db: Database, source: Source): Promise<readonly SourceProblem[]> {
  try {
    await inTransaction(db, (tx) => pageQuery(source, FIRST_PAGE).execute(tx), CHECK_MS)
    return []
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

/** Conditions on touched columns, which each write sets: a row leaves the source when it is written. */
function findTouchedConditions({ name: source, mapping, touches }: Source): SourceProblem[] {
  return listConditions(mapping).flatMap(([place, where]) => {
    const names = new Set(
      listReferences(where).flatMap(({ kind, name }) => (kind === 'column' ? [name] : [])),
    )
    const touched = touches.filter(({ attribute, path }) => path.length === 0 && names.has(attribute))
    if (touched.length === 0) return []
    const columns = listNames(touched.map(({ column }) => column))
    return [
      {
        source,
        place,
        found: `${where}\na condition on ${columns}, which each write sets: a row leaves the source`,
        expected: 'a condition on columns that Fillrate does not write',
        todo: 'Leave that out: a row without blanks is not picked. To keep rows by a time: freshness: { column: … }.',
      },
    ]
  })
}

/** Why a source has no row: its conditions, or row-level security. Empty if it has one. */
async function explainNoRows(db: Db, source: Source): Promise<SourceProblem[]> {
  const { mapping, table, name } = source
  const rows = await query(
    db,
    `select from ${table.sql} as t ${joinsSql(source)} where ${eligibleSql(source)} limit 1`,
  )
  if (rows.length > 0) return []
  if (await mayHideRows(db, source))
    return [
      {
        source: name,
        place: 'table',
        found: 'no row of the source that this role may read: row-level security may hide them',
        expected: 'policies that let the role read the rows',
        todo: `Create policies for the role, for SELECT and for UPDATE; those of the table: select * from pg_policies where tablename = ${quoteLiteral(table.name)}`,
      },
    ]
  if (mapping.where.length === 0) return []
  return [
    {
      source: name,
      place: 'where',
      found: `${mapping.where.join('\n')}\n${mapping.where.length === 1 ? 'a condition' : 'conditions'} that no row meets`,
      expected: 'conditions that some rows meet',
      todo: '`fillrate plan` shows how many rows each condition leaves out. Or the table has no rows.',
    },
  ]
}

/** Checks the triggers of a source with live sync. */
export async function checkTriggers(db: Database, source: Source): Promise<Finding> {
  const name = `follow ${source.name}`
  const there = await readTriggerState(db, source)
  if (there.state === 'right') return createFinding(name, 'ok', 'triggers installed')
  const why = there.state === 'missing' ? 'triggers not installed' : there.why
  return createFinding(name, 'error', why, { todo: `Run \`fillrate follow install ${source.name}\`.` })
}
