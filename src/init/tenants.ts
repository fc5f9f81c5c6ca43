import { type Db, query } from '../sources/db.ts'
import { quoteIfNeeded, quoteLiteral, quoteName } from '../sources/quote.ts'
import type { CandidateField } from './fields.ts'
import { type IntrospectedTable, type TableOverview } from './introspect.ts'
import type { RowFlag } from './flag-sql.ts'
import type { TableRelation } from './relations.ts'
import { singularize, splitIdentifier, toWordSet } from './words.ts'
import { scoreName } from './roles.ts'

/** A column that says to which customer of the software a row belongs. */
interface TenantColumn {
  readonly field: CandidateField
  /** The table of tenants, if it is known. */
  readonly table: IntrospectedTable | null
  /** The users' own companies: their rows belong to one owner. */
  readonly isOwnCompany: boolean
}

/** The tenants of a table: the one to propose, and how many there are. */
export interface TenantChoice {
  readonly column: string
  readonly value: string
  readonly tenants: number
  /** Rows without a tenant are shared by all. */
  readonly hasShared: boolean
}

const SURE_WORDS = toWordSet('tenant workspace instance realm vault')
/** Tenants in some systems, customers in others. */
const POSSIBLE_WORDS = toWordSet(
  'agency organization org account company team site client group entity business store brand',
)

/** The columns of a table that separate tenants. Pure. */
export function findTenantColumns(
  table: IntrospectedTable,
  schema: {
    readonly overviews: readonly TableOverview[]
    readonly relations: readonly TableRelation[]
    readonly isStaff: (table: string) => boolean
  },
): TenantColumn[] {
  return table.fields.flatMap((field) => {
    if (field.path.length > 0 || !field.column.canSelect) return []
    const rest = field.words.filter((word) => !KEY_WORDS.has(word))
    const [word = ''] = rest
    if (rest.length !== 1 || (!SURE_WORDS.has(word) && !POSSIBLE_WORDS.has(word))) return []
    const target = schema.relations.find(
      (one) => one.from.table.sql === table.table.sql && one.columns[0] === field.name && one.type === null,
    )?.to
    const isKey = field.words.length > 1 || field.fit.kind === 'integer' || field.fit.kind === 'uuid'
    if (target?.table.sql === table.table.sql || (!isKey && target === undefined)) return []
    const column = { field, table: target ?? null, isOwnCompany: OWN_COMPANY_WORDS.has(word) }
    return SURE_WORDS.has(word) ||
      (target !== undefined && isTenantName(target.table.name)) ||
      isSharedColumn(field, table, column.table, schema)
      ? [column]
      : []
  })
}

const OWN_COMPANY_WORDS = toWordSet('company brand store site business')
const KEY_WORDS = toWordSet('id uuid key fk ad')

/** A column of staff tables and of many others: the referenced rows own the software's data. */
function isSharedColumn(
  field: CandidateField,
  own: IntrospectedTable,
  target: IntrospectedTable | null,
  {
    overviews,
    isStaff,
  }: { readonly overviews: readonly TableOverview[]; readonly isStaff: (table: string) => boolean },
): boolean {
  const others = overviews.filter(
    (one) => one.kind === 'table' && one.sqlName !== own.sqlName && one.sqlName !== target?.sqlName,
  )
  const having = others.filter((one) => one.columns.includes(field.name))
  // Of one or two rows for all: the users' own companies.
  if (target !== null && sizeOf(target) <= 2 && sizeOf(own) >= 20) return true
  if (target !== null && isMuchSmaller(target, own) && having.some((one) => isStaff(one.sqlName))) return true
  if (target !== null && isBilled(target)) return having.length >= 2
  if (target !== null && hasCompanyFacts(target)) return false
  // Without staff to show it: most tables have the column.
  return (
    having.length >= 4 &&
    having.length * 3 >= others.length * 2 &&
    (target === null || isMuchSmaller(target, own))
  )
}

/** An industry or a size is kept of customers, not of tenants. */
const hasCompanyFacts = ({ table }: IntrospectedTable): boolean =>
  table.columns.some(({ name }) =>
    (['industry', 'employees', 'revenue'] as const).some(
      (role) => scoreName(role, splitIdentifier(name), new Set()) >= 80,
    ),
  )

/** A plan, a subdomain or a trial is kept of those who rent the software. */
const isBilled = ({ table }: IntrospectedTable): boolean =>
  table.columns.filter(({ name }) => splitIdentifier(name).some((word) => BILLING_WORDS.has(word))).length >=
  2
const BILLING_WORDS = toWordSet('plan stripe trial seats paddle chargebee')

/** Rows of a table: the estimate, else the number of sampled rows. */
const sizeOf = ({ rows, sampled }: IntrospectedTable): number => Math.max(rows ?? 0, sampled)

const isMuchSmaller = (target: IntrospectedTable, own: IntrospectedTable): boolean =>
  sizeOf(target) <= 5 || sizeOf(target) * 10 <= sizeOf(own)

/** Whether a name says that a table lists tenants. */
export const isTenantName = (table: string): boolean =>
  splitIdentifier(table).some((word) => SURE_WORDS.has(singularize(word)) && word !== 'instance')

/** The tenant with the most rows; null if there is only one. */
export async function chooseTenant(
  db: Db,
  { table }: IntrospectedTable,
  { field }: TenantColumn,
): Promise<TenantChoice | null> {
  const column = quoteName(field.name)
  const [found] = await query<{ values: (string | null)[] }>(
    db,
    `select array_agg(value order by n desc, value) as values
       from (select ${column}::text as value, count(*) as n from ${table.sql} group by 1) as counted`,
  )
  const values = found?.values ?? []
  const tenants = values.filter((value) => value !== null)
  const [most] = tenants
  if (most === undefined || tenants.length < 2) return null
  return { column: field.name, value: most, tenants: tenants.length, hasShared: values.includes(null) }
}

/** Whether only the rows of the largest tenant are meant: a question. Pure. */
export function tenantFlag(choice: TenantChoice, { fields }: IntrospectedTable): RowFlag {
  const { column: name, value, tenants, hasShared } = choice
  const { fit, words = [] } = fields.find((one) => one.name === name) ?? {}
  const word = words.find((one) => !KEY_WORDS.has(one)) ?? 'tenant'
  const isNumber = fit?.kind === 'integer' || fit?.kind === 'numeric'
  const column = `t.${quoteIfNeeded(name)}`
  const literal = isNumber ? value : quoteLiteral(value)
  const same = `${column} = ${literal}`
  return {
    column: name,
    meaning: null,
    when: `rows of another ${word} than the largest: do you mean only the rows of that one (${name} = ${literal}), or of all ${tenants}?`,
    keep: hasShared ? `(${column} is null or ${same})` : same,
    isSure: false,
    isLeftOut: false,
  }
}
