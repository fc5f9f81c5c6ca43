import { readTable, type Table, type KeyOperators } from '../catalogue.ts'
import type { Db } from '../db.ts'
import type { ProblemList } from '../problems.ts'
import { quoteName } from '../quote.ts'
import type { SourceMapping } from '../../domain/mapping.ts'
import type { KeyColumn } from '../source-model.ts'
import { findNamedColumn } from './cells.ts'

/** Finds the source's table. Only a table, not a view, can be locked, keyed and written. */
export async function findTable(db: Db, name: string, report: ProblemList): Promise<Table | null> {
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
export function resolveKey(table: Table, mapping: SourceMapping, report: ProblemList): ResolvedKey | null {
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
