import {
  type ClassifiedSchema,
  type ClassifiedTable,
  type Employer,
  relationsBetween,
  relationsFrom,
} from './classify.ts'
import { type RowFlag, arraySql, negate, notExists } from './flag-sql.ts'
import { exclusionConditions, readFlags } from './flags.ts'
import { fieldSql } from './fields.ts'
import { listedFlags, mergeFlags, staffFlags, subscriptionFlags, suppressionFlags } from './listed-people.ts'
import { type Meaning, labelMeaning } from './meanings.ts'
import { labelsSql, listKnownLabels } from './row-filters.ts'
import { joinCondition } from './relations.ts'
import { isAddressTable, isSuppressionName } from './table-names.ts'
import { isInUse, unknownNeighbours } from './unknown-flags.ts'
import { HARMLESS_LISTS } from './vocabulary.ts'
import { singularize, splitIdentifier, toWordSet } from './words.ts'

/** How a person's row is found in other tables. */
interface PersonRow {
  /** The expression of the address; null if there is none. */
  readonly email: string | null
  /** The company that the row refers to. */
  readonly employer: Employer | null
}

/** What other tables say of a table's people: lists of objections, subscriptions, tags, their company, staff. Pure. */
export function relatedFlags(schema: ClassifiedSchema, row: ClassifiedTable, person: PersonRow): RowFlag[] {
  // Of a table that each schema has, that of the row's own: another tenant's list says nothing.
  const others = schema.tables.filter(
    (one) =>
      one.table.sql !== row.table.sql &&
      (one.table.schema === row.table.schema ||
        !schema.tables.some(
          (same) => same.table.schema === row.table.schema && same.table.name === one.table.name,
        )),
  )
  return [
    ...others.flatMap((other) =>
      isSuppressionName(other.table.name)
        ? suppressionFlags(schema, row, other, person.email)
        : firstFound(
            () => subscriptionFlags(schema, row, other, person.email),
            () => staffFlags(other, person.email),
            () => listedFlags(schema, row, other, person.email),
          ),
    ),
    ...tagFlags(schema, row, 'person'),
    ...labelTableFlags(schema, row, 'person'),
    ...mergeFlags(schema, row),
    ...sideFlags(schema, row),
    ...tenantFlags(schema, row),
    ...employerFlags(person.employer),
    ...unknownNeighbours(schema, row, person.employer),
  ]
}

const firstFound = (...ways: readonly (() => RowFlag[])[]): RowFlag[] => {
  for (const find of ways) {
    const found = find()
    if (found.length > 0) return found
  }
  return []
}

const LEAVES_OUT: ReadonlySet<Meaning> = new Set(['objection', 'gone', 'test', 'staff', 'private'])

/** Lists of states or types that a row refers to by key, where a label says that the row must be left out. Pure. */
export function labelTableFlags(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  context: 'person' | 'company',
): RowFlag[] {
  return relationsFrom(schema, row).flatMap((relation) => {
    const list = schema.tables.find((one) => one.table.sql === relation.to.table.sql)
    if (
      relation.from.table.sql !== row.table.sql ||
      relation.type !== null ||
      !list ||
      list.kinds.length > 0 ||
      list.isStaff ||
      list.isTenants
    )
      return []
    const words = [...relation.columns, list.table.name].flatMap(splitIdentifier)
    if (!words.some((word) => LIST_WORDS.has(singularize(word)))) return []
    const isFact = words.some((word) => FACT_WORDS.has(word) || FACT_WORDS.has(singularize(word)))
    if ((list.rows ?? 0) > MAX_LABEL_ROWS || list.table.sql === row.table.sql || list.sampled === 0) return []
    const flags = labelChoices(list, context, 's', false, (said) => ({
      column: relation.columns[0] ?? '',
      from: `${list.sqlName} s`,
      conditions: [joinCondition(relation, 't', 's'), said],
    }))
    return isFact ? flags.filter(({ isSure }) => isSure) : flags
  })
}

const MAX_LABEL_ROWS = 100
const FACT_WORDS = toWordSet(HARMLESS_LISTS)

const LIST_WORDS = toWordSet(
  'status state stage type category kind class group segment tag list rating role lifecycle label source',
)

/** More labels than this are tags of every kind: only those that are understood count. */
const MAX_CHOICES = 14

/** The labels of a list that leave rows out, together, and each that is not understood as a choice. */
function labelChoices(
  { fields, table }: ClassifiedTable,
  context: 'person' | 'company',
  alias: string,
  isTag: boolean,
  place: (said: string) => { column: string; from: string; conditions: readonly string[] },
): RowFlag[] {
  const [best] = fields
    .flatMap((field) => {
      const isTranslated =
        field.path.length === 1 && (field.fit.kind === 'jsonb' || field.fit.kind === 'json')
      const name = isTranslated ? splitIdentifier(field.column.name) : field.words
      const isName = (field.fit.kind === 'text' && field.path.length === 0) || isTranslated
      if (!isName || !TAG_NAMES.test(name.join(' '))) return []
      const labels = [...new Set(field.values)]
      return [{ field, labels, sure: labels.filter((label) => saysLeaveOut(label, context)) }]
    })
    .toSorted((a, b) => b.sure.length - a.sure.length)
  if (best === undefined) return []
  const make = (labels: readonly string[], isSure: boolean): RowFlag => {
    const { column, from, conditions } = place(labelsSql(fieldSql(best.field, alias), labels))
    const flag = notExists(column, from, conditions, isSure, `${table.name} says ${labels.join(' or ')}`)
    return isTag ? { ...flag, isTag } : flag
  }
  const open = best.labels.filter((label) => !best.sure.includes(label) && !isInUse(label))
  return [
    ...(best.sure.length === 0 ? [] : [make(best.sure, true)]),
    ...(open.length > MAX_CHOICES ? [] : open.map((label) => make([label], false))),
  ]
}

/** Tags that are rows of the row's own: a child table with their names. Pure. */
function childTagFlags(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  context: 'person' | 'company',
): RowFlag[] {
  return schema.tables.flatMap((child) => {
    const [toRow] = relationsBetween(schema, child, row)
    const isList = splitIdentifier(child.table.name).some((word) => TAG_WORDS.has(singularize(word)))
    if (toRow === undefined || !isList || child.kinds.length > 0 || child.isStaff) return []
    return labelChoices(child, context, 'l', true, (said) => ({
      column: child.table.name,
      from: `${child.sqlName} l`,
      conditions: [joinCondition(toRow, 'l', 't'), said],
    }))
  })
}

const TAG_WORDS = toWordSet('tag label')

/** Tags, groups and lists that a link table gives to rows, where their names say that the row must be left out. Pure. */
export function tagFlags(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  context: 'person' | 'company',
): RowFlag[] {
  const linked = schema.tables.flatMap((link) => {
    const [toRow] = relationsBetween(schema, link, row)
    if (toRow === undefined || link.kinds.length > 0 || link.isStaff || isAddressTable(link.table.name))
      return []
    return relationsFrom(schema, link).flatMap((toTag): RowFlag[] => {
      const { from, to } = toTag
      const tag = schema.tables.find((one) => one.table.sql === to.table.sql)
      if (
        from.table.sql !== link.table.sql ||
        to.table.sql === row.table.sql ||
        !tag ||
        tag.kinds.length > 0 ||
        tag.isStaff ||
        tag.isTenants
      )
        return []
      if (toTag.columns.some((column) => toRow.columns.includes(column))) return []
      const isList = [link.table.name, tag.table.name].some((name) =>
        splitIdentifier(name).some((word) => LIST_WORDS.has(singularize(word))),
      )
      if (!isList) return []
      return labelChoices(tag, context, 'g', true, (said) => ({
        column: tag.table.name,
        from: `${link.sqlName} l join ${tag.sqlName} g on ${joinCondition(toTag, 'l', 'g')}`,
        conditions: [joinCondition(toRow, 'l', 't'), ...exclusionConditions(link, 'l', 'link'), said],
      }))
    })
  })
  return [...linked, ...childTagFlags(schema, row, context)]
}

const TAG_NAMES = /(?:^| )(?:name|title|tag|slug|description|list|group|value|code)$/

const saysLeaveOut = (label: string, context: 'person' | 'company'): boolean => {
  const meaning = labelMeaning(label, context)
  return meaning !== null && LEAVES_OUT.has(meaning)
}

/** What a row's own key leads to, where that keeps what a person wants: `Individual`, `privacy_settings`. */
function sideFlags(schema: ClassifiedSchema, row: ClassifiedTable): RowFlag[] {
  return relationsFrom(schema, row).flatMap((relation) => {
    const side = schema.tables.find((one) => one.table.sql === relation.to.table.sql)
    if (relation.from.table.sql !== row.table.sql || relation.type !== null || !side || side === row)
      return []
    if (!splitIdentifier(side.table.name).some((word) => SIDE_WORDS.has(singularize(word)))) return []
    return readFlags(side, 's', 'person').flatMap((flag) =>
      flag.isSure && (flag.meaning === 'objection' || flag.meaning === 'private')
        ? [
            notExists(flag.column, `${side.sqlName} s`, [
              joinCondition(relation, 't', 's'),
              negate(flag.keep),
            ]),
          ]
        : [],
    )
  })
}

const SIDE_WORDS = toWordSet('person consent preference privacy gdpr permission')

const TENANT_REASONS: ReadonlySet<Meaning> = new Set(['objection', 'test', 'gone', 'alive'])

/** Rows of a tenant that is a test, or wants nothing done. Pure. */
export function tenantFlags(schema: ClassifiedSchema, row: ClassifiedTable): RowFlag[] {
  return relationsFrom(schema, row).flatMap((relation) => {
    const tenant = schema.tables.find((one) => one.table.sql === relation.to.table.sql)
    if (relation.from.table.sql !== row.table.sql || relation.type !== null || tenant?.isTenants !== true)
      return []
    return readFlags(tenant, 'n', 'company').flatMap((flag) =>
      flag.meaning !== null && TENANT_REASONS.has(flag.meaning)
        ? [
            notExists(flag.column, `${tenant.sqlName} n`, [
              joinCondition(relation, 't', 'n'),
              negate(flag.keep),
            ]),
          ]
        : [],
    )
  })
}

/** A company that has objected, is a private person, or is the users' own: its people are left out with it. */
function employerFlags(employer: PersonRow['employer']): RowFlag[] {
  if (employer === null) return []
  const { company, relation, link } = employer
  const [from, reach] =
    link === undefined
      ? [`${company.sqlName} e`, [joinCondition(relation, 't', 'e')]]
      : [
          `${link.table.sqlName} l join ${company.sqlName} e on ${joinCondition(relation, 'l', 'e')}`,
          [joinCondition(link.toRow, 'l', 't'), ...exclusionConditions(link.table, 'l', 'link')],
        ]
  return readFlags(company, 'e', 'company').flatMap((flag) =>
    flag.isSure && (flag.meaning === 'objection' || flag.meaning === 'private' || flag.meaning === 'staff')
      ? [notExists(flag.column, from, [...reach, negate(flag.keep)])]
      : [],
  )
}

/** Tags kept in the row itself, in an array. Pure. */
export function tagArrayFlags(
  { fields, checkLabels }: ClassifiedTable,
  context: 'person' | 'company',
): RowFlag[] {
  return fields.flatMap((field) => {
    if (field.fit.kind !== 'array' || field.path.length > 0 || !field.column.canSelect) return []
    const said = listKnownLabels(field, checkLabels).filter((label) => saysLeaveOut(label, context))
    if (said.length === 0) return []
    return [
      {
        column: field.name,
        meaning: 'objection',
        when: `${field.name} has one of ${said.join(', ')}`,
        keep: arraySql(field, 't', said),
        isSure: true,
      },
    ]
  })
}
