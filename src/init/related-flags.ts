import type { SourceKind } from '../domain/mapping.ts'
import {
  type ClassifiedSchema,
  type ClassifiedTable,
  type Employer,
  relationsBetween,
  relationsFrom,
} from './classify.ts'
import { type RowFlag, labelsSql, notExists } from './flag-sql.ts'
import { exclusionConditions, isInUse, readFlags, roleColumns } from './flags.ts'
import { fieldSql } from './fields.ts'
import { listedFlags } from './listed-people.ts'
import { type Meaning, labelMeaning } from './meanings.ts'
import { joinCondition } from './relations.ts'
import { isAddressTable } from './table-names.ts'
import { HARMLESS_LISTS } from './vocabulary.ts'
import { headNoun, singularize, splitIdentifier, toWordSet } from './words.ts'

/** How a person's row is found in other tables. */
interface PersonRow {
  /** The expression of the address; null if there is none. */
  readonly email: string | null
  /** The company that the row refers to. */
  readonly employer: Employer | null
}

/** What other tables say of a table's rows: what they refer to, their labels and tags, and lists of people. Pure. */
export function relatedFlags(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  kind: SourceKind,
  { email, employer }: PersonRow = { email: null, employer: null },
): RowFlag[] {
  // Of a table that each schema has, that of the row's own: another tenant's list says nothing.
  const isOfOther = ({ table }: ClassifiedTable): boolean =>
    table.schema !== row.table.schema &&
    schema.tables.some((one) => one.table.schema === row.table.schema && one.table.name === table.name)
  const others = schema.tables.filter((one) => one !== row && !isOfOther(one))
  return [
    ...(kind === 'person' ? others.flatMap((other) => listedFlags(schema, row, other, email)) : []),
    ...labelLists(schema, row).flatMap((one) => labelChoices(one, kind)),
    ...neighbours(schema, row, kind, employer).flatMap((one) => neighbourFlags(one, kind)),
  ]
}

/** Other rows that say something of a row, as a part of SQL: `from … where reach`. */
interface Reached {
  readonly table: ClassifiedTable
  readonly from: string
  readonly reach: readonly string[]
  /** Whether what is not sure is not worth a question. */
  readonly isOnlySure: boolean
  /** Whether it has the key of the row, which is a part of it: then it is gone with it. */
  readonly isSameRow?: boolean
}

/** The rows that a row refers to: its company, its tenant, what it wants, its event. */
function neighbours(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  kind: SourceKind,
  employer: Employer | null,
): Reached[] {
  const own = relationsFrom(schema, row).flatMap((relation): Reached[] => {
    const table = schema.tables.find((one) => one.table.sql === relation.to.table.sql)
    const isOther = relation.type === null && table !== undefined && table !== row
    if (!isOther || table.isStaff || table.isUsers) return []
    // Of another's people, only what the row's own person wants: `Individual`.
    const isOnlySure = table.kinds.length > 0 && !table.isTenants
    if (isOnlySure && (kind === 'company' || headNoun(table.table.name) !== 'person')) return []
    const isSameRow = relation.columns.join() === row.table.primaryKey.join()
    const reach = [joinCondition(relation, 't', 'n')]
    return [{ table, isOnlySure, isSameRow, from: `${table.sqlName} n`, reach }]
  })
  if (employer === null) return own
  const { company, relation, link } = employer
  const reached =
    link === undefined
      ? { from: `${company.sqlName} n`, reach: [joinCondition(relation, 't', 'n')] }
      : {
          from: `${link.table.sqlName} l join ${company.sqlName} n on ${joinCondition(relation, 'l', 'n')}`,
          reach: [joinCondition(link.toRow, 'l', 't'), ...exclusionConditions(link.table, 'l', 'link')],
        }
  const isOnlySure = link !== undefined || relation.type !== null
  return [...own, { table: company, isOnlySure, ...reached }]
}

/** What concerns all rows that refer to a row. A deleted company is only none to name. */
const REASONS: ReadonlySet<Meaning | null> = new Set(['objection', 'private', 'staff'])
const TENANT_REASONS: ReadonlySet<Meaning | null> = new Set(['objection', 'test', 'gone', 'alive'])

function neighbourFlags({ table, from, reach, isOnlySure, isSameRow }: Reached, kind: SourceKind): RowFlag[] {
  const context = table.kinds.includes('company') || table.isTenants ? 'company' : kind
  const known = new Set([...roleColumns(table), ...table.references, ...table.table.primaryKey])
  return readFlags(table, 'n', context).flatMap((flag) => {
    if (flag.meaning === null && (isOnlySure || known.has(flag.column))) return []
    const reasons = table.isTenants ? TENANT_REASONS : REASONS
    const isSure = flag.isSure && (isSameRow === true || reasons.has(flag.meaning))
    if (!isSure && (isOnlySure || flag.meaning === 'alive' || (table.kinds.length > 0 && flag.isSure)))
      return []
    const when = `${table.table.name}: ${flag.when}`
    const { keep } = notExists('', from, [...reach, flag.out], when)
    return [{ ...flag, column: `${table.table.name}.${flag.column}`, when, keep, isSure, isOfOther: true }]
  })
}

/** A list whose names are labels of rows. */
interface LabelList extends Omit<Reached, 'isOnlySure' | 'isSameRow'> {
  readonly column: string
  /** Whether a row may have many of them. */
  readonly isTag: boolean
}

const LIST_WORDS = toWordSet(
  'status state stage type category kind class group segment tag list rating role lifecycle label source',
)
const MAX_LIST_ROWS = 100

const hasWord = (words: ReadonlySet<string>, ...names: readonly string[]): boolean =>
  names.flatMap(splitIdentifier).some((word) => words.has(word) || words.has(singularize(word)))

/** The lists of labels that rows have: by their own key, in a table of their tags, or through a link table. */
function labelLists(schema: ClassifiedSchema, row: ClassifiedTable): LabelList[] {
  const isPlain = ({ kinds, isStaff, isTenants }: ClassifiedTable): boolean =>
    kinds.length === 0 && !isStaff && !isTenants
  const listsOf = (from: ClassifiedTable): Array<{ relation: Relation; list: ClassifiedTable }> =>
    relationsFrom(schema, from).flatMap((relation) => {
      const list = schema.tables.find((one) => one.table.sql === relation.to.table.sql)
      return list !== undefined && list !== from && list !== row && isPlain(list) ? [{ relation, list }] : []
    })
  const own = listsOf(row).flatMap(({ relation, list }): LabelList[] => {
    const [column = ''] = relation.columns
    if (relation.type !== null || (list.rows ?? 0) > MAX_LIST_ROWS) return []
    if (!hasWord(LIST_WORDS, column, list.table.name)) return []
    return [
      {
        table: list,
        column,
        isTag: false,
        from: `${list.sqlName} g`,
        reach: [joinCondition(relation, 't', 'g')],
      },
    ]
  })
  const linked = schema.tables.flatMap((link): LabelList[] => {
    const [toRow] = relationsBetween(schema, link, row)
    if (toRow === undefined || !isPlain(link) || isAddressTable(link.table.name)) return []
    const tags = listsOf(link).flatMap(({ relation, list }): LabelList[] => {
      if (relation.columns.some((column) => toRow.columns.includes(column))) return []
      if (!hasWord(LIST_WORDS, link.table.name, list.table.name)) return []
      const from = `${link.sqlName} l join ${list.sqlName} g on ${joinCondition(relation, 'l', 'g')}`
      const reach = [joinCondition(toRow, 'l', 't'), ...exclusionConditions(link, 'l', 'link')]
      return [{ table: list, column: list.table.name, isTag: true, from, reach }]
    })
    if (!hasWord(TAG_WORDS, link.table.name)) return tags
    const reach = [joinCondition(toRow, 'g', 't')]
    return [...tags, { table: link, column: link.table.name, isTag: true, from: `${link.sqlName} g`, reach }]
  })
  return [...own, ...linked]
}

type Relation = ClassifiedSchema['relations'][number]

const FACT_WORDS = toWordSet(HARMLESS_LISTS)
const TAG_WORDS = toWordSet('tag label')
const LABEL_NAMES = /(?:^| )(?:name|title|tag|slug|description|list|group|value|code)$/

/** More labels than this are tags of every kind: only those that are understood count. */
const MAX_CHOICES = 14

/** The labels of a list that leave rows out, together, and each that is not understood as a choice. */
function labelChoices({ table, column, from, reach, isTag }: LabelList, kind: SourceKind): RowFlag[] {
  const [best] = table.fields
    .flatMap((field) => {
      const isTranslated = field.path.length === 1 && /^jsonb?$/.test(field.fit.kind)
      const name = isTranslated ? splitIdentifier(field.column.name) : field.words
      const isName = (field.fit.kind === 'text' && field.path.length === 0) || isTranslated
      if (!isName || !LABEL_NAMES.test(name.join(' '))) return []
      const labels = [...new Set(field.values)]
      return [{ field, labels, sure: labels.filter((label) => labelMeaning(label, kind) !== null) }]
    })
    .toSorted((a, b) => b.sure.length - a.sure.length)
  if (best === undefined) return []
  const make = (labels: readonly string[]): RowFlag => ({
    ...notExists(
      column,
      from,
      [...reach, labelsSql(fieldSql(best.field, 'g'), labels)],
      `${table.table.name} says ${labels.join(' or ')}`,
    ),
    ...(isTag && { isTag }),
  })
  const isFact = !isTag && hasWord(FACT_WORDS, column, table.table.name)
  const open = isFact ? [] : best.labels.filter((label) => !best.sure.includes(label) && !isInUse(label))
  return [
    ...(best.sure.length === 0 ? [] : [make(best.sure)]),
    ...(open.length > MAX_CHOICES
      ? []
      : open.map((label) => ({ ...make([label]), meaning: null, isSure: false }))),
  ]
}
