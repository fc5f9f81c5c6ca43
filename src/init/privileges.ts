import { type Grant, type MissingPolicy, grantStatements } from '../sources/grants.ts'
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
 * Tables that this role may not read, or of which row-level security may hide every row, where they may hold people or companies,
 * refer to a source or are referred to by one, or were named. Pure.
 * @param seen the tables of which this role saw a row
 */
export function listUnreadTables(
  { tables, references, role, policy }: DatabaseTables,
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
    const isHidden = one.table === null || (one.hasRowSecurity && !seen.has(one.sqlName))
    if (!isHidden || !(isNamed(one) || joined.has(one.sqlName) || one.columnNames.some(isLikely))) return []
    const on = formatTableName(one.schema, one.name)
    const schema = `SCHEMA ${quoteIfNeeded(one.schema)}`
    const lacking: (Grant | MissingPolicy | false)[] = [
      !one.canUseSchema && { on: schema, privilege: 'USAGE', columns: null, role },
      one.table === null && { on, privilege: 'SELECT', columns: null, role },
      one.hasRowSecurity && { on, policy, command: 'SELECT', using: 'true', role },
    ]
    const reason = one.table === null ? 'this role may not read it' : 'row-level security may hide its rows'
    return [{ table: on, reason, grants: grantStatements(lacking.filter((grant) => grant !== false)) }]
  })
}
