import { readTable, type Table } from '../catalogue.ts'
import type { Db } from '../db.ts'
import type { ProblemList } from '../problems.ts'
import { quoteName } from '../quote.ts'

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
