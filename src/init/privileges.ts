import { checkPolicyPrivileges } from '../sources/check/row-security.ts'
import type { Db } from '../sources/db.ts'
import {
  type Grant,
  type MissingPolicy,
  grantStatements,
  ProblemList,
  listRemedies,
} from '../sources/problems.ts'
import { formatTableName, quoteIfNeeded } from '../sources/quote.ts'
import type { DatabaseTables, ListedTable } from './database-tables.ts'
import { rankDomainName, rankEmailName } from './names.ts'
import type { LeftTable } from './proposal.ts'

/** What the role lacks to read single columns of a table that it reads. Pure. */
export function listUnreadColumns(role: string, { schema, name, table }: ListedTable): Grant[] {
  const unread = table?.columns.filter(({ canSelect }) => !canSelect) ?? []
  const columns = unread.map((column) => quoteIfNeeded(column.name))
  return columns.length === 0
    ? []
    : [{ on: formatTableName(schema, name), privilege: 'SELECT', columns, role }]
}

/**
 * Tables of which row-level security may hide every row; and those that this role may not read, where they may hold people or
 * companies, refer to a source or are referred to by one, or were named. Pure.
 * @param seen the tables of which this role saw a row
 */
export function listUnreadTables(
  { tables, references, role, policy, updatePolicy }: DatabaseTables,
  seen: ReadonlySet<string>,
  sources: ReadonlySet<string>,
  isNamed: (table: ListedTable) => boolean,
): LeftTable[] {
  const joined = new Set(
    references.flatMap(({ from, to }) => [
      ...(sources.has(from) ? [to] : []),
      ...(sources.has(to) ? [from] : []),
    ]),
  )
  const isLikely = (column: string): boolean => rankEmailName(column) > 1 || rankDomainName(column) > 0
  return tables.flatMap((one) => {
    const isHidden = one.table === null || (one.lacksSelectPolicy && !seen.has(one.sqlName))
    // What the role was granted, it is meant to read.
    const isMeant = one.table !== null || isNamed(one) || joined.has(one.sqlName)
    if (!isHidden || !(isMeant || one.columnNames.some(isLikely))) return []
    const on = formatTableName(one.schema, one.name)
    const schema = `SCHEMA ${quoteIfNeeded(one.schema)}`
    const lacking: (Grant | MissingPolicy | false)[] = [
      !one.canUseSchema && { on: schema, privilege: 'USAGE', columns: null, role },
      one.table === null && { on, privilege: 'SELECT', columns: null, role },
      one.lacksSelectPolicy && { on, policy, command: 'SELECT', using: 'true', role },
      one.lacksUpdatePolicy && { on, policy: updatePolicy, command: 'UPDATE', using: 'true', role },
    ]
    const reason = one.table === null ? 'this role may not read it' : 'row-level security may hide its rows'
    return [{ table: on, reason, grants: grantStatements(lacking.filter((grant) => grant !== false)) }]
  })
}

/**
 * Those of some tables with policies that read or call what this role may not, which makes Postgres refuse every row.
 * @param tables whose rows could not be read
 */
export async function listRefusedTables(db: Db, tables: readonly ListedTable[]): Promise<LeftTable[]> {
  const refused: LeftTable[] = []
  for (const { oid, sqlName, hasRowSecurity } of tables) {
    if (!hasRowSecurity) continue
    const report = new ProblemList(sqlName)
    await checkPolicyPrivileges(db, [{ oid, place: 'table', isSource: false }], report)
    if (report.problems.length > 0)
      refused.push({
        table: sqlName,
        reason: 'its policies use what this role may not',
        grants: listRemedies(report.problems),
      })
  }
  return refused
}
