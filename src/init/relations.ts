import type { Column } from '../sources/catalogue.ts'
import { type Db, queryValue } from '../sources/db.ts'
import { quoteIfNeeded, quoteLiteral, quoteName } from '../sources/quote.ts'
import type { CandidateField } from './fields.ts'
import { listKnownLabels } from './row-filters.ts'
import type { ForeignKey, IntrospectedTable } from './introspect.ts'
import { headNoun, isSameEntity, singularize, splitIdentifier, toWordSet } from './words.ts'

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
  const keys = tables.flatMap((to) => singleKeys(to).map((column) => ({ to, column })))
  const byName = Map.groupBy(keys, ({ column }) => column.name)
  return freeFields(tables, declared).flatMap(({ from, field }) => {
    // The same name as the other table's key says enough, unless several tables call their key so.
    const isNamesake = byName.get(field.name)?.length === 1 && field.values.length > 0
    return suggestForField(field, from, { tables, keys, isNamesake })
  })
}

/**
 * What refers to `party` refers to `person`, too, whose key is that of its party: parts, addresses and links of the whole are those
 * of each kind of it. Pure.
 */
export const inheritedRelations = (relations: readonly TableRelation[]): TableRelation[] =>
  relations
    .filter(hasSameKey)
    .flatMap(({ from: part, to: whole, columns, targets }) =>
      relations.flatMap((one) =>
        one.to === whole && one.from !== part && !hasSameKey(one) && one.targets.join() === targets.join()
          ? [{ ...one, to: part, targets: columns }]
          : [],
      ),
    )

/** A part leads to what its whole refers to. */
export const invert = (one: TableRelation): TableRelation => ({
  ...one,
  from: one.to,
  to: one.from,
  columns: one.targets,
  targets: one.columns,
})

/** Whether the row that refers has the key of the other: it is a part of it. A model of a warehouse has that key without an index. */
export const hasSameKey = ({ from, to, columns, targets, type }: TableRelation): boolean => {
  if (type !== null || from === to) return false
  if (from.table.uniqueKeys.length > 0) return columns.join() === from.table.primaryKey.join()
  const values = from.fields.find(({ name }) => name === columns[0])?.values ?? []
  return columns.join() === targets.join() && values.length > 0 && new Set(values).size === values.length
}

/** The columns that are not known to hold the key of anything. */
function freeFields(
  tables: readonly IntrospectedTable[],
  known: readonly TableRelation[],
): Array<{ readonly from: IntrospectedTable; readonly field: CandidateField }> {
  const taken = new Set(
    known.flatMap(({ from, columns }) => columns.map((column) => `${from.sqlName}.${column}`)),
  )
  return tables.flatMap((from) =>
    from.fields.flatMap((field) =>
      field.path.length > 0 || taken.has(`${from.sqlName}.${field.name}`) ? [] : [{ from, field }],
    ),
  )
}

/** What the name of a key says beside the entity: `account_id`, `firma_nr`, `company_code`. */
export const KEY_WORDS = toWordSet('id uuid guid sfid number code key ref reference no fk')
/** What a table adds to the name of another whose key it has: `contacts_cstm`. */
const PART_WORDS = toWordSet('cstm custom cdata details detail extra fields info data')
/** What a polymorphic reference calls the column beside it: `owner_type`, `bean_module`, `entity_kind`. */
const TYPE_WORDS = toWordSet('type module class model table kind entitytype')

/** The entity that a column mentions by its name, or by that of its table; null if it is no key. */
function entityOf({ name, words }: CandidateField, { table }: IntrospectedTable): readonly string[] | null {
  const ofTable = splitIdentifier(table.name)
  const isPart = PART_WORDS.has(ofTable.at(-1) ?? '') && table.primaryKey.join() === name
  // Stitch puts the lists of a row into tables of their own.
  if (isPart || name.startsWith('_sdc_source_key_')) return ofTable.slice(0, -1)
  return KEY_WORDS.has(words.at(-1) ?? '') ? words.slice(0, -1) : null
}

interface KeysOfTables {
  readonly tables: readonly IntrospectedTable[]
  /** The columns that identify rows. */
  readonly keys: ReadonlyArray<{ readonly to: IntrospectedTable; readonly column: Column }>
  /** Whether one key is called as the field is. */
  readonly isNamesake: boolean
}

function suggestForField(
  field: CandidateField,
  from: IntrospectedTable,
  { tables, keys, isNamesake }: KeysOfTables,
): TableRelation[] {
  const said = entityOf(field, from)
  // The text in a column `user` may be a key of `tabUser`.
  const isFilled = /^(?:text|integer|uuid)$/.test(field.fit.kind) && field.values.length > 2
  const text = isFilled && said === null ? field.words : []
  const type = said === null ? undefined : typeBeside(said, from)
  const known = type ? typeLabels(type, tables) : []
  const possible = keys.flatMap(({ to, column }): Array<TableRelation & { readonly rank: number }> => {
    if (to === from || !column.canSelect || !isSameKind(column.type.fit.kind, field.fit.kind)) return []
    const relation = { from, to, columns: [field.name], targets: [column.name] }
    const [label] = known.find(([, name]) => isSameEntity(name, to.table.name)) ?? []
    if (type && label !== undefined) return [{ ...relation, type: { column: type.name, label }, rank: 4 }]
    const isKey = isNamesake && field.name === column.name
    const isSpelled = isSpelledAs(field.name, to.table.name)
    const rank =
      isKey || isSpelled ? 3 : nameRank(said ?? text, to.table.name) || Number(isEmployer(text, to)) / 2
    return rank === 0 ? [] : [{ ...relation, type: null, rank }]
  })
  const best = Math.max(...possible.map(({ rank }) => rank))
  return possible.filter(({ rank }) => rank === best)
}

/** A loader makes a number of an unsigned key. */
const isSameKind = (one: string, other: string): boolean =>
  one === other || [one, other].every((kind) => kind === 'integer' || kind === 'numeric')

/** `clientCorporationId` is a key of `clientcorporation`, of whatever words that consists. */
const isSpelledAs = (column: string, table: string): boolean => {
  const [key, entity] = [column, table].map((name) => name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, ''))
  return key === `${entity}id`
}

/** The labels of a type, each with the name of its table: those in use, or in Django the keys of a table of content types. */
function typeLabels(
  type: CandidateField,
  tables: readonly IntrospectedTable[],
): Array<readonly [label: string, name: string]> {
  const listed = tables.find(({ table }) => /content_?types?$/i.test(table.name))
  const [key = ''] = listed?.table.primaryKey ?? []
  return type.fit.kind !== 'integer'
    ? listKnownLabels(type).map((label) => [label, label])
    : (listed?.sample ?? []).map((row) => [String(row[key]), String(row['model'])])
}

/** `parentcustomerid_entitytype` beside `parentcustomerid`, `owner_type` beside `owner_id`, `content_type_id` beside `object_id`. */
function typeBeside(said: readonly string[], { fields }: IntrospectedTable): CandidateField | undefined {
  const entity = (words: readonly string[]): string =>
    words.filter((word) => !/^(?:id|pk|entity|object|content|target)$/.test(word)).join(' ')
  return fields.find(({ words: own, fit }) => {
    const words = own.at(-1) === 'id' && fit.kind === 'integer' ? own.slice(0, -1) : own
    const isType = TYPE_WORDS.has(words.at(-1) ?? '') && (/^(?:text|enum)$/.test(fit.kind) || words !== own)
    return isType && said.length > 0 && entity(words.slice(0, -1)) === entity(said)
  })
}

/** Columns that identify a table's rows alone, or do by their name: a mirror has the key of its origin without an index. */
function singleKeys({ table }: IntrospectedTable): Column[] {
  const names = new Set([
    ...[table.primaryKey, ...table.uniqueKeys].flatMap((key) => (key.length === 1 ? key : [])),
    ...table.columns.flatMap(({ name }) => (/^(?:sfid|uuid|guid|id)$/i.test(name) ? [name] : [])),
  ])
  return [...names].flatMap((name) => table.columns.find((column) => column.name === name) ?? [])
}

/** How well words name a table: `contact` fits contacts better than crm_contacts, and `primary contact` fits it too. */
export function nameRank(said: readonly string[], table: string): number {
  const words = said.map(singularize).join(' ')
  if (words === '') return 0
  const meant = splitIdentifier(table).map(singularize).join(' ')
  if (words === meant) return 3
  if (meant.endsWith(` ${words}`)) return 2
  return words.endsWith(` ${meant}`) ? 1 : 0
}

/** A person's `company` may be a row of `customer`. */
const isEmployer = (said: readonly string[], { table }: IntrospectedTable): boolean =>
  said.length === 1 && [...said, headNoun(table.name)].every((word) => COMPANY_NOUNS.has(word))
const COMPANY_NOUNS = toWordSet('company account organization customer client firm employer corporation')

/** Keeps the suggested relations whose sampled values are keys of the other table, and those without values to check. */
export async function confirmRelations(
  db: Db,
  suggested: readonly TableRelation[],
): Promise<TableRelation[]> {
  const confirmed: TableRelation[] = []
  for (const relation of suggested) {
    const { from, to, type } = relation
    const field = from.fields.find(({ name }) => name === relation.columns[0])
    const target = to.table.columns.find(({ name }) => name === relation.targets[0])
    const values = type === null ? [...new Set(field?.values)].slice(0, 50) : []
    const count =
      values.length === 0 || target === undefined
        ? null
        : await queryValue<number>(
            db,
            `select count(*)::float8 from ${to.table.sql} as t
              where t.${quoteName(target.name)} = any ($1::text[]::${target.type.cast}[])`,
            [values],
          )
    if (count === null || count * 2 >= values.length) confirmed.push(relation)
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
