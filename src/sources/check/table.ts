import { nearestWords } from '../../util/text.ts'
import { listTables, readTable, type Table } from '../catalogue.ts'
import type { Db } from '../db.ts'
import type { ProblemList } from '../problems.ts'
import { formatTableName, parseTableName, quoteName } from '../quote.ts'

/** Finds the source's table, or suggests one. Only a table, not a view, can be locked, keyed and written. */
export async function findTable(db: Db, name: string, report: ProblemList): Promise<Table | null> {
  const table = await readTable(db, name)
  const problem = table === null ? await describeMissing(db, name) : describeUnusable(table, name)
  if (problem === null) return table
  report.add('table', ...problem)
  return null
}

type TableProblem = readonly [found: string, expected: string, todo: string]

const describeMissing = async (db: Db, name: string): Promise<TableProblem> => [
  `'${name}', which this database does not have`,
  'a table of it',
  await suggestTable(db, name),
]

function describeUnusable(table: Table, name: string): TableProblem | null {
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
  if (table.isInherited && !table.canSelectRows)
    return [
      `'${name}', of which this role may read single columns only, and from which ${table.inheritors.join(', ')} inherits`,
      'a role that may read the place of a row: tables that inherit may repeat a key',
      `Grant it: grant select on ${table.sql} to …`,
    ]
  if (table.encoding !== 'UTF8')
    return [
      `a database in ${table.encoding}`,
      'one in UTF8: records may contain any character',
      'Move the data to a database created with encoding UTF8.',
    ]
  return null
}

async function suggestTable(db: Db, name: string): Promise<string> {
  const { schema, table } = parseTableName(name)
  const all = await listTables(db)
  const toText = (one: { readonly schema: string; readonly table: string }): string =>
    schema === null ? one.table : `${one.schema}.${one.table}`
  const same = all.filter((one) => one.table === table)
  const [near] = nearestWords(toText({ schema: schema ?? '', table }), all.map(toText))
  const meant = same.length === 1 ? same[0] : all.find((one) => toText(one) === near)
  if (meant === undefined)
    return 'Check the name, its schema, and that DATABASE_URL points to the right database.'
  return `Did you mean ${formatTableName(meant.schema, meant.table)}?`
}
