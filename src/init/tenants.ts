import { type Db, query } from '../sources/db.ts'
import { quoteIfNeeded, quoteLiteral, quoteName } from '../sources/quote.ts'
import type { CandidateField } from './fields.ts'
import type { IntrospectedTable, TableOverview } from './introspect.ts'
import type { RowFlag } from './flag-sql.ts'
import { KEY_WORDS, type TableRelation } from './relations.ts'
import { singularize, splitIdentifier, toWordSet } from './words.ts'

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

const SURE_WORDS = toWordSet('tenant workspace realm vault')
/** Tenants in some systems, customers in others. */
const POSSIBLE_WORDS = toWordSet('agency organization org account team client group entity instance')
const OWN_COMPANY_WORDS = toWordSet('company brand store site business')

/** Whether a name says that a table lists tenants. */
export const isTenantName = (table: string): boolean =>
  splitIdentifier(table).some((word) => SURE_WORDS.has(singularize(word)))

/** The columns of a table that separate tenants. Pure. */
export function findTenantColumns(
  own: IntrospectedTable,
  {
    overviews,
    relations,
    isStaff,
  }: {
    readonly overviews: readonly TableOverview[]
    readonly relations: readonly TableRelation[]
    readonly isStaff: (table: string) => boolean
  },
): TenantColumn[] {
  return own.fields.flatMap((field) => {
    const [word = '', ...more] = field.words.filter((one) => !KEY_WORDS.has(one) && one !== 'ad')
    const isOwnCompany = OWN_COMPANY_WORDS.has(word)
    const isSure = SURE_WORDS.has(word)
    if (more.length > 0 || field.path.length > 0 || !field.column.canSelect) return []
    if (!isSure && !isOwnCompany && !POSSIBLE_WORDS.has(word)) return []
    const target =
      relations.find(
        ({ from, columns, type }) =>
          from.sqlName === own.sqlName && columns[0] === field.name && type === null,
      )?.to ?? null
    const isKey =
      target !== null || field.words.length > 1 || field.fit.kind === 'integer' || field.fit.kind === 'uuid'
    if (!isKey || target?.sqlName === own.sqlName) return []
    const others = overviews.filter(
      ({ kind, sqlName }) => kind === 'table' && sqlName !== own.sqlName && sqlName !== target?.sqlName,
    )
    const having = others.filter(({ columns }) => columns.includes(field.name))
    // The rows of all, staff's too, belong to a few others.
    const isFew = target === null || sizeOf(target) <= 5 || sizeOf(target) * 10 <= sizeOf(own)
    const isOfMost = having.length > 1 && having.length * 4 >= others.length
    const isOfStaff = having.some(({ sqlName }) => isStaff(sqlName))
    const isOne = target !== null && sizeOf(target) <= 2 && sizeOf(own) >= 20
    const isShared = isFew && (isOfMost || (target !== null && isOfStaff) || isOne)
    return isSure || (target !== null && isTenantName(target.table.name)) || isShared
      ? [{ field, table: target, isOwnCompany }]
      : []
  })
}

/** Rows of a table: the estimate, else the number of sampled rows. */
const sizeOf = ({ rows, sampled }: IntrospectedTable): number => Math.max(rows ?? 0, sampled)

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
