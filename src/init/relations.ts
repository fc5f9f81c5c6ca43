import { query, type Db } from '../sources/db.ts'
import { quoteIfNeeded, quoteLiteral, quoteName } from '../sources/quote.ts'
import type { CandidateField } from './fields.ts'
import { nameHint } from './kinds.ts'
import { listKnownLabels } from './row-filters.ts'
import type { ForeignKey, IntrospectedTable } from './introspect.ts'
import { isSameEntity, singularize, splitIdentifier, toWordSet } from './words.ts'

/** What says to which table a polymorphic reference leads. */
interface PolymorphicType {
  readonly column: string
  readonly label: string
  /** The table of which the column has keys, and its column with the labels; none: the column has the labels. */
  readonly listed?: { readonly table: string; readonly key: string; readonly label: string }
}

/** How rows of one table refer to rows of another. */
export interface TableRelation {
  readonly from: IntrospectedTable
  readonly to: IntrospectedTable
  /** Columns of `from` that hold the key of `to`. */
  readonly columns: readonly string[]
  readonly targets: readonly string[]
  /** A polymorphic reference: the column that names the referenced table, and its label for this one. */
  readonly type: PolymorphicType | null
}

/** Foreign keys between the tables that were read. Pure. */
export function declaredRelations(
  tables: readonly IntrospectedTable[],
  references: readonly ForeignKey[],
): TableRelation[] {
  const bySql = new Map(tables.map((one) => [one.sqlName, one]))
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
        .filter((field) => field.path.length === 0 && !known.has(`${from.table.sql}.${field.name}`))
        .flatMap((field) => suggestForField(field, from, tables)),
    ),
  ]
}

const PART_WORDS = toWordSet('cstm custom cdata details detail extra fields info data')

/** Tables named after another: of further columns with the same key, or into which a loader puts the lists of a row. */
function suggestedParts(tables: readonly IntrospectedTable[], known: ReadonlySet<string>): TableRelation[] {
  return tables.flatMap((from) =>
    tables.flatMap((to) => {
      const pair = from.table.name.startsWith(`${to.table.name}_`) ? ownerKey(from, to) : null
      const field = from.fields.find(({ name, path }) => name === pair?.[0] && path.length === 0)
      const target = to.table.columns.find(({ name }) => name === pair?.[1])
      const isNew = pair !== null && !known.has(`${from.table.sql}.${pair[0]}`)
      if (!isNew || !field || !target || !isSameTypeFamily(field, target.type.name)) return []
      return [{ from, to, columns: [pair[0]], targets: [pair[1]], type: null }]
    }),
  )
}

/** The column of a part that holds the key of the row that it belongs to, and that key. */
function ownerKey(from: IntrospectedTable, to: IntrospectedTable): readonly [string, string] | null {
  const [parent, dlt] = ['_sdc_source_key_', '_dlt_parent_id'].map((start) =>
    from.table.columns.find(({ name }) => name.startsWith(start)),
  )
  if (dlt && to.table.columns.some(({ name }) => name === '_dlt_id')) return [dlt.name, '_dlt_id']
  const [key, target] = [from, to].map(({ table }) =>
    table.primaryKey.length === 1 ? table.primaryKey[0] : undefined,
  )
  if (parent && target !== undefined) return [parent.name, target]
  const isPart = PART_WORDS.has(splitIdentifier(from.table.name).at(-1) ?? '')
  return isPart && key !== undefined && target !== undefined ? [key, target] : null
}

/** What the name of a key says beside the entity: `account_id`, `firma_nr`, `company_code`. */
export const KEY_WORDS = toWordSet('id uuid guid sfid number code key ref reference no fk')

/** The entity that a key's name mentions; null if the column is no key by its name. */
const entityOf = ({ words }: CandidateField): readonly string[] | null =>
  KEY_WORDS.has(words.at(-1) ?? '') ? words.slice(0, -1) : null

/** What a polymorphic reference calls the column beside it: `owner_type`, `bean_module`, `entity_kind`. */
const TYPE_NAMES = toWordSet('type module class model table kind entitytype')

function suggestForField(
  field: CandidateField,
  from: IntrospectedTable,
  tables: readonly IntrospectedTable[],
): TableRelation[] {
  const said = entityOf(field)
  const type = from.fields.find(
    ({ words, fit }) =>
      fit.kind === 'text' && TYPE_NAMES.has(words.at(-1) ?? '') && isTypeOf(words.slice(0, -1), said ?? []),
  )
  const possible = tables.flatMap((to) =>
    singleKeys(to).flatMap((key): Array<TableRelation & { readonly rank: number }> => {
      const target = to.table.columns.find((column) => column.name === key)
      if (!target?.canSelect || !isSameTypeFamily(field, target.type.name)) return []
      if (to === from && field.name === key) return []
      const relation = { from, to, columns: [field.name], targets: [key] }
      const label =
        type && listKnownLabels(type, from.checkLabels).find((one) => isSameEntity(one, to.table.name))
      if (type && label !== undefined) return [{ ...relation, type: { column: type.name, label }, rank: 4 }]
      const typed = contentType(field, from, to, tables)
      if (typed !== null) return [{ ...relation, type: typed, rank: 4 }]
      // The same name as the other table's key says enough, unless several tables call their key so.
      const isNamesake =
        field.name === key &&
        field.values.length > 0 &&
        tables.every((one) => one === to || !singleKeys(one).includes(key))
      const rank = isNamesake
        ? 3
        : said === null
          ? textRank(field, to) || companyRank(field, to)
          : to === from
            ? parentRank(said)
            : nameRank(said, to.table.name)
      return rank === 0 ? [] : [{ ...relation, type: null, rank }]
    }),
  )
  const best = Math.max(1, ...possible.map((one) => one.rank))
  return possible.filter((one) => one.rank === best)
}

/** `content_type_id` beside `object_id`, as Django has it: the key of a table that lists the models. */
function contentType(
  field: CandidateField,
  from: IntrospectedTable,
  to: IntrospectedTable,
  tables: readonly IntrospectedTable[],
): PolymorphicType | null {
  if (!/^(?:object|target|entity) (?:id|pk)$/.test(field.words.join(' '))) return null
  const column = from.fields.find(({ words }) => /\bcontent type(?: id)?$/.test(words.join(' ')))
  const listed = tables.find(({ table }) => /content_?types?$/i.test(table.name))
  const models = listed?.fields.find(({ words }) => words.join(' ') === 'model')
  const [key] = listed?.table.primaryKey ?? []
  const label = models?.values.find((one) => isSameEntity(one, to.table.name))
  if (!column || !listed || !models || key === undefined || label === undefined) return null
  return { column: column.name, label, listed: { table: listed.sqlName, key, label: models.name } }
}

/** `parentcustomerid_entitytype` beside `parentcustomerid`, `owner_type` beside `owner_id`. */
const isTypeOf = (words: readonly string[], said: readonly string[]): boolean =>
  said.length > 0 &&
  words.filter((word) => word !== 'id' && word !== 'entity').join(' ') ===
    said.filter((word) => word !== 'entity').join(' ')

/** Columns that identify a table's rows alone, or do by their name: a mirror has the key of its origin without an index. */
const singleKeys = ({ table }: IntrospectedTable): string[] => [
  ...new Set([
    ...[table.primaryKey, ...table.uniqueKeys].flatMap((key) => (key.length === 1 ? key : [])),
    ...table.columns.flatMap(({ name }) => (/^(?:sfid|uuid|guid)$/i.test(name) ? [name] : [])),
  ]),
]

/** How well words name a table: `contact` fits contacts better than crm_contacts, and `primary contact` fits it too. */
export function nameRank(said: readonly string[], table: string): number {
  const words = said.map(singularize).join(' ')
  const meant = splitIdentifier(table).map(singularize).join(' ')
  if (words === '') return 0
  if (words === meant) return 3
  if (meant.endsWith(` ${words}`)) return 2
  return words.endsWith(` ${meant}`) ? 1 : 0
}

/** The text in a column `user` may be a key of `tabUser`. */
const textRank = ({ words, fit, values }: CandidateField, to: IntrospectedTable): number =>
  fit.kind === 'text' && values.length > 2 ? nameRank(words, to.table.name) : 0

/** A number in a column `company` is a key of the companies, whatever their table is called. */
const companyRank = ({ words: [word = '', ...more], fit }: CandidateField, to: IntrospectedTable): number =>
  Number(
    more.length === 0 &&
      (fit.kind === 'integer' || fit.kind === 'uuid') &&
      nameHint('company', word) === 'strong' &&
      nameHint('company', to.table.name) !== 'none',
  )

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

/** SQL: whether a polymorphic reference leads to this table. Pure. */
function typeSql({ column, label, listed }: PolymorphicType, alias: string): string {
  const own = `${alias}.${quoteIfNeeded(column)}`
  if (listed === undefined) return `${own} = ${quoteLiteral(label)}`
  const { table, key, label: name } = listed
  return `${own} in (select y.${quoteIfNeeded(key)} from ${table} y where y.${quoteIfNeeded(name)} = ${quoteLiteral(label)})`
}

/** SQL for the join condition. The source's own row, `t`, stands on the right. */
export function joinCondition(relation: TableRelation, from: string, to: string): string {
  const { type } = relation
  const pairs = relation.columns.map((column, n) => {
    const key = `${to}.${quoteIfNeeded(relation.targets[n] ?? '')}`
    const value = `${from}.${quoteIfNeeded(column)}`
    return to === 't' ? `${value} = ${key}` : `${key} = ${value}`
  })
  const typed = type === null ? [] : [typeSql(type, from)]
  return [...pairs, ...typed].join(' and ')
}
