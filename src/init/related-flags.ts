import {
  type ClassifiedSchema,
  type ClassifiedTable,
  type Employer,
  relationsBetween,
  relationsFrom,
} from './classify.ts'
import { type RowFlag, negate, notExists } from './flag-sql.ts'
import { exclusionConditions, readFlags } from './flags.ts'
import { type CandidateField, fieldSql } from './fields.ts'
import { mergeFlags, staffFlags, subscriptionFlags, suppressionFlags } from './listed-people.ts'
import { type Meaning, labelMeaning } from './meanings.ts'
import { labelsSql, listKnownLabels } from './row-filters.ts'
import { joinCondition } from './relations.ts'
import { isAddressTable, isSuppressionName } from './table-names.ts'
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
        : [...subscriptionFlags(schema, row, other, person.email), ...staffFlags(other, person.email)],
    ),
    ...tagFlags(schema, row, 'person'),
    ...labelTableFlags(schema, row, 'person'),
    ...mergeFlags(schema, row),
    ...sideFlags(schema, row),
    ...tenantFlags(schema, row),
    ...employerFlags(person.employer),
  ]
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
    if ((list.rows ?? 0) > MAX_LABEL_ROWS || list.table.sql === row.table.sql || list.sampled === 0) return []
    const said = labelsThatLeaveOut(list, context)
    if (said === null) return []
    return [
      notExists(relation.columns[0] ?? '', `${list.sqlName} s`, [
        joinCondition(relation, 't', 's'),
        labelsSql(fieldSql(said.field, 's'), said.labels),
      ]),
    ]
  })
}

const MAX_LABEL_ROWS = 100

const LIST_WORDS = toWordSet(
  'status state stage type category kind class group segment tag list rating role lifecycle label source',
)

/** The labels of a list, by a column that names its rows, that leave rows out. */
function labelsThatLeaveOut(
  { fields }: ClassifiedTable,
  context: 'person' | 'company',
): { readonly field: CandidateField; readonly labels: readonly string[] } | null {
  const found = fields.flatMap((field) => {
    const isTranslated = field.path.length === 1 && (field.fit.kind === 'jsonb' || field.fit.kind === 'json')
    const name = isTranslated ? splitIdentifier(field.column.name) : field.words
    const isName = (field.fit.kind === 'text' && field.path.length === 0) || isTranslated
    if (!isName || !TAG_NAMES.test(name.join(' '))) return []
    const labels = [...new Set(field.values)].filter((label) => saysLeaveOut(label, context))
    return labels.length > 0 ? [{ field, labels }] : []
  })
  return found.toSorted((a, b) => b.labels.length - a.labels.length)[0] ?? null
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
    const said = labelsThatLeaveOut(child, context)
    if (said === null) return []
    const conditions = [joinCondition(toRow, 'l', 't'), labelsSql(fieldSql(said.field, 'l'), said.labels)]
    return [notExists(child.table.name, `${child.sqlName} l`, conditions)]
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
      const said = isList ? labelsThatLeaveOut(tag, context) : null
      if (said === null) return []
      return [
        notExists(
          tag.table.name,
          `${link.sqlName} l join ${tag.sqlName} g on ${joinCondition(toTag, 'l', 'g')}`,
          [
            joinCondition(toRow, 'l', 't'),
            ...exclusionConditions(link, 'l', 'link'),
            labelsSql(fieldSql(said.field, 'g'), said.labels),
          ],
        ),
      ]
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
    const list = said.map((label) => `'${label.replaceAll("'", "''")}'`).join(', ')
    const sql = `t.${fieldSql({ ...field, fit: { kind: 'jsonb' }, holdsArrays: false }, 't').slice(2)}`
    return [
      {
        column: field.name,
        meaning: 'objection',
        when: `${field.name} has one of ${said.join(', ')}`,
        keep: `(${sql} && array[${list}]::${field.column.type.name}) is not true`,
        isSure: true,
      },
    ]
  })
}
