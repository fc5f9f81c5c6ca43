import { query, type Db } from '../sources/db.ts'
import { quoteLiteral, quoteName } from '../sources/quote.ts'
import { quoteIfNeeded, type CandidateField } from './fields.ts'
import { listKnownLabels } from './row-filters.ts'
import type { ForeignKey, IntrospectedTable } from './introspect.ts'
import { isSameEntity, singularize, splitIdentifier, toWordSet } from './identifier-words.ts'

/** How rows of one table refer to rows of another. */
export interface TableRelation {
  readonly from: IntrospectedTable
  readonly to: IntrospectedTable
  /** Columns of `from` that hold the key of `to`. */
  readonly columns: readonly string[]
  readonly targets: readonly string[]
  /** A polymorphic reference: the column that names the referenced table, and its label for this one. */
  readonly type: { readonly column: string; readonly label: string } | null
}

/** Foreign keys between the tables that were read. Pure. */
export function declaredRelations(
  tables: readonly IntrospectedTable[],
  references: readonly ForeignKey[],
): TableRelation[] {
  const bySql = new Map(tables.map((one) => [one.table.sql, one]))
  return references.flatMap(({ from, to, columns, targets }) => {
    const [source, target] = [bySql.get(from), bySql.get(to)]
    return source && target ? [{ from: source, to: target, columns, targets, type: null }] : []
  })
}

/**
 * Relations without a foreign key that names and types suggest: `account_id` to the key of `accounts`, and
 * `owner_type` with `owner_id` to the table that the type names. They may be wrong: see `confirmRelations`. Pure.
 */
export function suggestedRelations(
  tables: readonly IntrospectedTable[],
  declared: readonly TableRelation[],
): TableRelation[] {
  const known = new Set(
    declared.flatMap(({ from, columns }) => columns.map((column) => `${from.table.sql}.${column}`)),
  )
  return [
    ...suggestedParts(tables, known),
    ...tables.flatMap((from) =>
      from.fields
        .filter((field) => field.path.length === 0 && isKeyName(field))
        .filter((field) => !known.has(`${from.table.sql}.${field.name}`))
        .flatMap((field) => suggestForField(field, from, tables)),
    ),
  ]
}

const PART_WORDS = toWordSet('cstm custom cdata details detail extra fields info data')

/** Whether a name says that a table holds further columns of another: `contacts_cstm` of `contacts`. Pure. */
export function isPartName(part: string, owner: string): boolean {
  const words = splitIdentifier(part)
  return (
    PART_WORDS.has(words.at(-1) ?? '') && words.slice(0, -1).join(' ') === splitIdentifier(owner).join(' ')
  )
}

/** Tables of further columns with the same key. */
function suggestedParts(tables: readonly IntrospectedTable[], known: ReadonlySet<string>): TableRelation[] {
  return tables.flatMap((from) => {
    const [key, ...more] = from.table.primaryKey
    const field = from.fields.find((one) => one.name === key && one.path.length === 0)
    if (!key || !field || more.length > 0 || known.has(`${from.table.sql}.${key}`)) return []
    const to = tables.find((one) => isPartName(from.table.name, one.table.name))
    const [target, ...others] = to?.table.primaryKey ?? []
    const type = to?.table.columns.find((column) => column.name === target)?.type.name
    if (!to || !target || others.length > 0 || type === undefined || !isSameTypeFamily(field, type)) return []
    return [{ from, to, columns: [key], targets: [target], type: null }]
  })
}

/** `account_id` or `fk_account`. */
const isKeyName = ({ name, words }: CandidateField): boolean => words.at(-1) === 'id' || /^fk_/i.test(name)

/** What a polymorphic reference calls the column beside it: `owner_type`, `bean_module`. */
const TYPE_NAMES = toWordSet('type module class model table kind')

function suggestForField(
  field: CandidateField,
  from: IntrospectedTable,
  tables: readonly IntrospectedTable[],
): TableRelation[] {
  const said = field.words.at(-1) === 'id' ? field.words.slice(0, -1) : field.words
  const type = from.fields.find(
    ({ words }) => TYPE_NAMES.has(words.at(-1) ?? '') && words.slice(0, -1).join(' ') === said.join(' '),
  )
  const possible = tables.flatMap((to): Array<TableRelation & { readonly rank: number }> => {
    const [key, ...more] = to.table.primaryKey
    const target = to.table.columns.find((column) => column.name === key)
    if (!key || more.length > 0 || !target?.canSelect || !isSameTypeFamily(field, target.type.name)) return []
    const relation = { from, to, columns: [field.name], targets: [key] }
    if (!type)
      return [
        { ...relation, type: null, rank: to === from ? parentRank(said) : nameRank(said, to.table.name) },
      ]
    const label = listKnownLabels(type, from.checkLabels).find((one) => isSameEntity(one, to.table.name))
    return label === undefined ? [] : [{ ...relation, type: { column: type.name, label }, rank: 1 }]
  })
  const best = Math.max(1, ...possible.map((one) => one.rank))
  return possible.filter((one) => one.rank === best)
}

/** How well words name a table: `contact` fits contacts better than crm_contacts, and `primary contact` fits it too. */
export function nameRank(said: readonly string[], table: string): number {
  const words = said.map(singularize).join(' ')
  const meant = splitIdentifier(table).map(singularize).join(' ')
  if (words === '') return 0
  if (words === meant) return 3
  if (meant.endsWith(` ${words}`)) return 2
  return words.endsWith(` ${meant}`) ? 1 : 0
}

const parentRank = (said: readonly string[]): number => (said.at(-1) === 'parent' ? 3 : 0)

function isSameTypeFamily(field: CandidateField, target: string): boolean {
  const family = (type: string): string =>
    /^(?:small|big)?int|^integer/.test(type)
      ? 'integer'
      : /^(?:text|char|varchar|citext)/.test(type)
        ? 'text'
        : type
  return family(field.column.type.name) === family(target)
}

/**
 * Keeps the suggested relations whose sampled values are keys of the other table, and those without values to check.
 */
export async function confirmRelations(
  db: Db,
  suggested: readonly TableRelation[],
): Promise<TableRelation[]> {
  const confirmed: TableRelation[] = []
  for (const relation of suggested) {
    const field = relation.from.fields.find((one) => one.name === relation.columns[0])
    const values = [...new Set(field?.values)].slice(0, 50)
    if (values.length === 0 || relation.type !== null) {
      confirmed.push(relation)
      continue
    }
    const target = relation.to.table.columns.find(({ name }) => name === relation.targets[0])
    if (!target) continue
    const keys = `$1::text[]::${target.type.cast}[]`
    const [found] = await query<{ count: number }>(
      db,
      `select count(*)::float8 as count from ${relation.to.table.sql} as t where t.${quoteName(target.name)} = any (${keys})`,
      [values],
    )
    if ((found?.count ?? 0) * 2 >= values.length) confirmed.push(relation)
  }
  return confirmed
}

/** SQL for the join condition. The source's own row, `t`, stands on the right. */
export function joinCondition(relation: TableRelation, from: string, to: string): string {
  const { type } = relation
  const pairs = relation.columns.map((column, n) => {
    const key = `${to}.${quoteIfNeeded(relation.targets[n] ?? '')}`
    const value = `${from}.${quoteIfNeeded(column)}`
    return to === 't' ? `${value} = ${key}` : `${key} = ${value}`
  })
  const typed = type === null ? [] : [`${from}.${quoteIfNeeded(type.column)} = ${quoteLiteral(type.label)}`]
  return [...pairs, ...typed].join(' and ')
}
