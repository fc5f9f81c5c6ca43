import { type Db, query } from '../sources/db.ts'
import { type Grant, grantStatements, type MissingPolicy } from '../sources/grants.ts'
import { formatTableName, quoteIfNeeded, splitName } from '../sources/quote.ts'
import { findAsideWord } from './classify.ts'
import type { ForeignKey, TableOverview } from './introspect.ts'
import { isSuppressionName, sayingOf } from './meanings.ts'
import type { Proposal, ProposedSource, SkippedTable, TableExplanation, UnreadTable } from './proposal.ts'
import { isLikeParty, mentions } from './shortlist.ts'
import { findStaffTables } from './staff.ts'
import { isTenantName } from './tenants.ts'
import { singularize, splitIdentifier } from './words.ts'

type SourceOfTable = Pick<ProposedSource, 'table' | 'outputs' | 'skippedColumns'>

interface UnreadContext {
  readonly references: readonly ForeignKey[]
  /** Null: no table was named. */
  readonly wanted: ((table: TableOverview) => boolean) | null
  readonly sources: readonly SourceOfTable[]
  readonly role: Role
}

/** The role that reads, and the name of a policy for it, as SQL writes them. */
interface Role {
  readonly name: string
  readonly policy: string
}

export const readRole = async (db: Db): Promise<Role> => {
  const [role] = await query<Role>(
    db,
    `select quote_ident(current_user) as name, quote_ident(current_user || '_select') as policy`,
  )
  return role ?? { name: 'current_user', policy: 'fillrate_select' }
}

/**
 * Tables that this role may not read, and without which a proposal may look up who must not be: those that say who must not be
 * contacted, those that a source refers to, and those that the user named. A proposal with fewer rights must not silently be
 * another one. Those in the schemas of the sources come first. Pure.
 */
export function listUnread(all: readonly TableOverview[], context: UnreadContext): UnreadTable[] {
  const { references, wanted, sources, role } = context
  const own = all.filter(({ sqlName }) => sources.some(({ table }) => table === sqlName))
  const schemas = new Set(own.map(({ schema }) => schema))
  const staff = findStaffTables(all, references)
  const readSchemas = new Set(all.flatMap(({ schema, canRead }) => (canRead ? [schema] : [])))
  const reasonOf = (one: TableOverview): string | null => {
    if (isAside(one) && !schemas.has(one.schema)) return null
    const isAsked = wanted === null || sources.length > 0
    if (isAsked && isObjections(one)) return 'it may say who must not be contacted'
    return staff.has(one.sqlName) ? null : describeReference(one, own, all, context)
  }
  return all
    .toSorted((a, b) => Number(schemas.has(b.schema)) - Number(schemas.has(a.schema)))
    .flatMap((one) => {
      const isNamed = wanted?.(one) === true
      const why = one.canRead ? null : reasonOf(one)
      if (one.canRead || (why === null && !isNamed)) return []
      const table = formatTableName(one.schema, one.name)
      return [{ table, why, isNamed, lacking: listLacking(one, role, readSchemas.has(one.schema)) }]
    })
}

/** What else this role may not read and may hold people or companies. Pure. */
export function listUnreadParties(
  all: readonly TableOverview[],
  references: readonly ForeignKey[],
  unread: readonly UnreadTable[],
): SkippedTable[] {
  const staff = findStaffTables(all, references)
  return all.flatMap((one) => {
    const table = formatTableName(one.schema, one.name)
    const isKnown = unread.some((other) => other.table === table) || staff.has(one.sqlName)
    // A view has no rows to be locked.
    if (one.canRead || one.kind !== 'table' || isKnown || isAside(one) || !isLikeParty(one)) return []
    const reason = `it may hold people or companies, and this role may not read it: grant select on ${table}, with a policy where it has row-level security`
    return [{ table, reason }]
  })
}

/** What was made of the tables that the user named. Pure. */
export const explainUnread = (unread: readonly UnreadTable[]): TableExplanation[] =>
  unread
    .filter(({ isNamed }) => isNamed)
    .map((one) => ({ table: one.table, verdict: describeUnread(one), columns: [] }))

/** Why a table that was not read matters, as it is said of each skipped table. Pure. */
export const describeUnread = ({ why }: UnreadTable): string =>
  why === null ? 'this role may not read it' : `${why}; this role may not read it`

const isAside = ({ schema }: TableOverview): boolean => findAsideWord(schema) !== undefined

const isObjections = ({ name }: TableOverview): boolean => {
  const meaning = sayingOf(splitIdentifier(name).map(singularize))?.meaning
  return meaning === 'objection' || meaning === 'consent' || isSuppressionName(name)
}

/** What a source loses by not seeing a table that it refers to; null: it does not refer to it. */
function describeReference(
  one: TableOverview,
  own: readonly TableOverview[],
  all: readonly TableOverview[],
  { references, sources }: UnreadContext,
): string | null {
  const keysOf = (table: TableOverview): readonly string[] => {
    const keys = references.filter(({ from, to }) => from === table.sqlName && to === one.sqlName)
    if (keys.length > 0) return keys.flatMap(({ columns }) => columns)
    return table.schema === one.schema ? mentions(table, one) : []
  }
  const found = own.flatMap((table) => {
    const columns = keysOf(table)
    return columns.length === 0 ? [] : [{ table, columns, key: columns.join(', ') }]
  })
  const [first] = found
  if (first === undefined) return null
  const list = found.find(({ table: { sqlName }, columns }) =>
    sources.some(
      ({ table, outputs, skippedColumns }) =>
        table === sqlName && [...outputs, ...skippedColumns].some(({ column }) => columns.includes(column)),
    ),
  )
  if (list !== undefined) return `it lists the values of ${list.key}`
  // Rows of a tenant refer to others of the same tenant.
  const shared = found.find(({ table, columns }) => {
    const referred = new Set(references.flatMap(({ from, to }) => (from === table.sqlName ? [to] : [])))
    return all.some(
      (other) => referred.has(other.sqlName) && keysOf(other).some((name) => columns.includes(name)),
    )
  })
  const { table, key } = shared ?? first
  return shared !== undefined || isTenantName(one.name)
    ? `the tenants that the rows of ${table.sqlName} belong to, by ${key}: which are suspended or a demo decides who is left out`
    : `${table.sqlName} refers to it by ${key}: what it says of a row (deleted, closed, not to be contacted) decides who is left out`
}

/** What the role lacks to read a table. */
function listLacking(
  { schema, name, hasRowSecurity }: TableOverview,
  { name: role, policy }: Role,
  readsSchema: boolean,
): (Grant | MissingPolicy)[] {
  const on = formatTableName(schema, name)
  return [
    ...(readsSchema
      ? []
      : [{ on: `SCHEMA ${quoteIfNeeded(schema)}`, privilege: 'USAGE', columns: null, role } as const]),
    { on, privilege: 'SELECT', columns: null, role },
    ...(hasRowSecurity ? [{ on, policy, command: 'SELECT', using: 'true', role } as const] : []),
  ]
}

/** Why a column is not proposed that this role may only read. */
export const MAY_NOT_UPDATE = 'may not be updated by this role'

/** The statements for what this role lacks: to read tables that decide who is left out, and to write columns. Pure. */
export const listMissingGrants = (
  unread: readonly UnreadTable[],
  sources: readonly Pick<ProposedSource, 'table' | 'skippedColumns'>[] = [],
  role: Proposal['role'] = '',
): string[] =>
  grantStatements([
    ...unread.flatMap(({ lacking }) => lacking),
    ...sources.flatMap(({ table, skippedColumns }) =>
      skippedColumns
        .filter(({ reason }) => reason === MAY_NOT_UPDATE)
        .map(({ column }) => ({
          on: table,
          privilege: 'UPDATE' as const,
          columns: [quoteIfNeeded(splitName(column)[0] ?? column)],
          role,
        })),
    ),
  ])
