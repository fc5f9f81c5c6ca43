import { quoteIfNeeded, quoteLiteral } from '../sources/quote.ts'
import type { CandidateField } from './fields.ts'
import type { IntrospectedTable, TableOverview } from './introspect.ts'
import type { RowFlag } from './flag-sql.ts'
import { KEY_WORDS, type TableRelation } from './relations.ts'
import { singularize, splitIdentifier, toWordSet } from './words.ts'

/** A column that says to which customer of the software a row belongs. */
interface TenantColumn {
  readonly field: CandidateField
  /** The table of tenants, if it is known. */
  readonly table: IntrospectedTable | undefined
}

const SURE_WORDS = toWordSet('tenant workspace realm vault')
/** Tenants in some systems, customers in others. */
const POSSIBLE_WORDS = toWordSet('agency organization org account team client group entity instance')
/** The users' own companies: their rows belong to one owner. */
const OWN_COMPANY_WORDS = toWordSet('company brand store site business')

/** Whether a name says that a table lists tenants. */
export const isTenantName = (table: string): boolean =>
  splitIdentifier(table).some((word) => SURE_WORDS.has(singularize(word)))

/** What the name of a key is about, if that is one word. */
const entityOf = ({ words, path }: CandidateField): string => {
  const [word = '', ...more] = words.filter((one) => !KEY_WORDS.has(one) && one !== 'ad')
  return more.length > 0 || path.length > 0 ? '' : word
}

/** The columns of a table that separate tenants. Pure. */
export function findTenantColumns(
  own: IntrospectedTable,
  schema: {
    readonly overviews: readonly TableOverview[]
    readonly relations: readonly TableRelation[]
    readonly isStaff: (table: string) => boolean
  },
): TenantColumn[] {
  const keys = schema.relations.filter(({ from, type }) => from.sqlName === own.sqlName && type === null)
  return own.fields.flatMap((field) => {
    const word = entityOf(field)
    const isPossible = [SURE_WORDS, POSSIBLE_WORDS, OWN_COMPANY_WORDS].some((words) => words.has(word))
    const table = keys.find(({ columns }) => columns[0] === field.name)?.to
    const isKey = field.words.length > 1 || field.fit.kind === 'integer' || field.fit.kind === 'uuid'
    if (!isPossible || !(isKey || table) || table?.sqlName === own.sqlName) return []
    const isSure = SURE_WORDS.has(word) || (table !== undefined && isTenantName(table.table.name))
    return isSure || isShared(field, own, table, schema) ? [{ field, table }] : []
  })
}

/** Whether the rows of many tables, or those of staff, belong to a few others. */
function isShared(
  { name }: CandidateField,
  own: IntrospectedTable,
  target: IntrospectedTable | undefined,
  { overviews, isStaff }: Pick<Parameters<typeof findTenantColumns>[1], 'overviews' | 'isStaff'>,
): boolean {
  const others = overviews.filter(
    ({ kind, sqlName }) => kind === 'table' && sqlName !== own.sqlName && sqlName !== target?.sqlName,
  )
  const having = others.filter(({ columns }) => columns.includes(name))
  const isOfMany = having.length > 1 && having.length * 4 >= others.length
  if (target === undefined) return isOfMany
  const isFew = sizeOf(target) <= 5 || sizeOf(target) * 10 <= sizeOf(own)
  return isFew && (isOfMany || having.some(({ sqlName }) => isStaff(sqlName)))
}

/** Rows of a table: the estimate, else the number of sampled rows. */
const sizeOf = ({ rows, sampled }: IntrospectedTable): number => Math.max(rows ?? 0, sampled)

/** Whether only the rows of the tenant with the most are meant: a question; null if there is only one. Pure. */
export function tenantFlag({ field }: TenantColumn, { sampled }: IntrospectedTable): RowFlag | null {
  const { name, fit, values } = field
  const tenants = [...Map.groupBy(values, (value) => value)].toSorted(
    ([a, some], [b, others]) => others.length - some.length || (a < b ? -1 : 1),
  )
  const [[most] = []] = tenants
  const word = entityOf(field)
  if (most === undefined || tenants.length < 2 || OWN_COMPANY_WORDS.has(word)) return null
  const isNumber = fit.kind === 'integer' || fit.kind === 'numeric'
  const column = `t.${quoteIfNeeded(name)}`
  const literal = isNumber ? most : quoteLiteral(most)
  const same = `${column} = ${literal}`
  return {
    column: name,
    meaning: null,
    when: `rows of another ${word} than the largest: do you mean only the rows of that one (${name} = ${literal}), or of all?`,
    // Rows without a tenant are shared by all.
    keep: values.length < sampled ? `(${column} is null or ${same})` : same,
    isSure: false,
    isLeftOut: false,
  }
}
