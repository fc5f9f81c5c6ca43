import { maskServerText } from '../util/error-text.ts'
import { listNames } from '../util/text.ts'
import type { SourceMapping } from '../domain/mapping.ts'
import { resolveOutputs, resolveTouches, resolveFreshness, findNamedColumn } from './check/cells.ts'
import { probeExpressions, scanExpressions, describeFix, checkUnsearchedTypes } from './check/expressions.ts'
import { checkPrivileges, checkRowSecurity } from './check/privileges.ts'
import { tryQuery, isCodedError, quoteName, type Db } from './db.ts'
import { ProblemList, SourceProblems, type SourceProblem } from './problems.ts'
import type { Source, KeyColumn } from './source-model.ts'
import { batchParameters } from './write/batch.ts'
import { rowUpdateStatement } from './write/statement.ts'
import { writeUpdate } from './write/write-update.ts'
import { readTable, type Table, type KeyOperators } from './catalogue.ts'

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
  if (!unsafe.has('joins')) await probeExpressions(db, table, mapping, cells, unsafe, report)
  if (key === null) return { source: null, problems }
  const source: Source = {
    name: mapping.name,
    mapping,
    table,
    ...key,
    outputs,
    touches,
    freshness,
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

/** Finds the source's table. Only a table, not a view, can be locked, keyed and written. */
async function findTable(db: Db, name: string, report: ProblemList): Promise<Table | null> {
  const table = await readTable(db, name)
  const problem = findProblem(table, name)
  if (problem === null) return table
  report.add('table', ...problem)
  return null
}

function findProblem(
  table: Table | null,
  name: string,
): readonly [found: string, expected: string, todo: string] | null {
  if (table === null)
    return [
      `'${name}', which this database does not have`,
      'a table of it, in double quotes where it has capitals',
      'Check the name, its schema, and that DATABASE_URL points to the right database.',
    ]
  if (table.schema === 'fillrate')
    return [
      `'${name}', which is in the schema 'fillrate'`,
      'a table of another schema: `forget` searches this one for what is left of a person',
      `Move it: alter table ${table.sql} set schema public. What a role named fillrate creates without a schema is created here.`,
    ]
  if (table.kind !== 'table')
    return [
      `'${name}', a ${table.kind}`,
      'a table: only its rows can be locked while they are written',
      'Name the underlying table, and express the rest of the view in `joins` and `where`.',
    ]
  if (table.inheritors.length > 0)
    return [
      `'${name}', from which ${listNames(table.inheritors)} inherit${table.inheritors.length === 1 ? 's' : ''}`,
      'a table whose key is unique in all of its rows; it may have partitions',
      'Make partitions of the tables that inherit from it, or sources of them, after: alter table … no inherit …',
    ]
  const [rule] = table.updateRules
  if (rule !== undefined)
    return [
      `'${name}', whose rule ${rule} rewrites updates`,
      'a table whose rows are updated as the statement says',
      `Do in a trigger what the rule does, and drop it: drop rule ${quoteName(rule)} on ${table.sql}`,
    ]
  if (table.encoding !== 'UTF8')
    return [
      `a database in ${table.encoding}`,
      'one in UTF8: records may contain any character',
      'Move the data to a database created with encoding UTF8.',
    ]
  return null
}

interface ResolvedKey {
  readonly keyColumns: readonly KeyColumn[]
  readonly keyOrder: readonly KeyColumn[]
}

/**
 * Resolves the columns that identify a row. They need a unique index: without one, a record might go to several rows, and
 * each page would sort the whole table.
 */
function resolveKey(table: Table, mapping: SourceMapping, report: ProblemList): ResolvedKey | null {
  const wanted = mapping.key ?? table.primaryKey
  if (wanted.length === 0) {
    report.add(
      'key',
      `nothing, and ${table.schema}.${table.name} has no primary key`,
      'the column or columns that identify a row',
      describeKeyCandidates(table),
    )
    return null
  }
  const found = wanted.flatMap((name) => findNamedColumn(table, name, 'key', report).column?.name ?? [])
  if (found.length < wanted.length) return null
  const at = table.uniqueKeys.findIndex((key) => key.every((column) => found.includes(column)))
  const index = table.uniqueKeys[at]
  if (!index) {
    const list = found.join(', ')
    report.add(
      'key',
      `${list}, on which there is no unique index`,
      'a key that the database itself keeps unique',
      `${describeKeyCandidates(table)} Or: create unique index concurrently on ${table.sql} (${found.map((name) => `"${name}"`).join(', ')})`,
    )
    return null
  }
  const operators = (name: string): KeyOperators =>
    table.keyOperators[at]?.[index.indexOf(name)] ?? {
      less: '<',
      atMost: '<=',
      equal: '=',
      atLeast: '>=',
      greater: '>',
    }
  const keyColumns = found
    .map((name) => toKeyColumn(table, name, operators(name), report))
    .filter((column) => column !== null)
  const inIndex = index.length === found.length ? index : found
  const keyOrder = inIndex.flatMap((name) => keyColumns.filter((column) => column.name === name))
  return keyColumns.length === found.length ? { keyColumns, keyOrder } : null
}

/** Types whose text depends on the session's settings: one row could have two keys, or two rows one. */
const SESSION_TEXT = /^(?:real|double precision|money|tstz(?:multi)?range|timestamp with time zone(?=\[))/

function toKeyColumn(
  table: Table,
  name: string,
  operators: KeyOperators,
  report: ProblemList,
): KeyColumn | null {
  const column = table.columns.find((column) => column.name === name)
  if (!column) return null
  if (column.type.fit.kind === 'float' || SESSION_TEXT.test(column.type.cast)) {
    report.add(
      'key',
      `${name}, which is ${column.type.name}: as text, two of its values may look alike`,
      'a key of whole numbers, text, uuid or dates',
      'Name another unique column, or give the table one: alter table … add column id bigint generated always as identity unique',
    )
    return null
  }
  return { name, type: column.type.name, columnType: column.type, notNull: column.notNull, operators }
}

function describeKeyCandidates(table: Table): string {
  const [first] = table.uniqueKeys
  return first ? `Set \`key\` to ${first.join(', ')}, which is unique.` : 'The table has no unique index.'
}
