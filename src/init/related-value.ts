import { exclusionConditions, optOutConditions } from './exclusions.ts'
import { listKnownLabels } from './row-filters.ts'
import { splitIdentifier, singularize, toWordSet } from './identifier-words.ts'
import { quoteLiteral } from '../sources/quote.ts'
import { quoteIfNeeded, fieldSql, type CandidateField } from './fields.ts'
import { joinCondition, type TableRelation } from './relations.ts'
import { holdsAny, normalizedEmail } from './assign-roles.ts'
import type { ColumnRole } from './roles.ts'
import { relationsBetween, type ClassifiedTable, type ClassifiedSchema } from './classify.ts'

type RelatedRole = ColumnRole & ('email' | 'domain' | 'profile')

/** A value in another table: which rows of which tables, and in what order. */
interface RelatedValue {
  readonly side: ClassifiedTable
  readonly field: CandidateField
  readonly from: string
  readonly conditions: readonly string[]
  readonly orderBy: string
}

/**
 * A sub-select for a value in another table, such as an email address in a table of addresses: reached by a key in
 * that table, through a link table, or by a key in the row itself. Prefers the primary value, then the oldest. Null
 * if there is none. Pure.
 */
export function relatedValueSql(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  role: RelatedRole,
): string | null {
  const found = findRelatedValue(schema, row, role)
  if (found === null) return null
  const { side, field, from, conditions, orderBy } = found
  return subselect(
    fieldSql(field, 'e'),
    from,
    [...conditions, ...exclusionConditions(side, 'e', 'address')],
    orderBy,
  )
}

/** Whether the row's first address, usable or not, is free of an opt-out. Pure. */
export function relatedOptOutConditions(schema: ClassifiedSchema, row: ClassifiedTable): string[] {
  const found = findRelatedValue(schema, row, 'email')
  if (found === null) return []
  const { side, from, conditions, orderBy } = found
  const isFree = optOutConditions(side, 'e')
  return isFree.length === 0
    ? []
    : [`coalesce(${subselect(isFree.join(' and '), from, conditions, orderBy)}, true)`]
}

function findRelatedValue(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  role: RelatedRole,
): RelatedValue | null {
  for (const side of schema.tables) {
    if (side.table.sql === row.table.sql || side.kinds.length > 0) continue
    const [direct] = relationsBetween(schema, side, row)
    const isPart = direct?.columns.join() === side.table.primaryKey.join()
    if (!isPart && !isAddressTable(side.table.name)) continue
    const found = findValueField(schema, side, role)
    if (found === undefined) continue
    const made = (
      from: string,
      reach: readonly string[],
      tables: Parameters<typeof orderBySql>[0],
    ): RelatedValue => ({
      side,
      field: found.field,
      from,
      conditions: [...reach, ...found.conditions],
      orderBy: orderBySql(tables),
    })
    if (direct) return made(`${side.sqlName} e`, [joinCondition(direct, 'e', 't')], [[side, 'e']])
    for (const link of schema.tables) {
      const [toSide] = relationsBetween(schema, link, side)
      const [toRow] = relationsBetween(schema, link, row)
      if (!toSide || !toRow || !useDifferentColumns(toSide, toRow) || link.kinds.length > 0) continue
      return made(
        `${link.sqlName} l join ${side.sqlName} e on ${joinCondition(toSide, 'l', 'e')}`,
        [joinCondition(toRow, 'l', 't'), ...exclusionConditions(link, 'l', 'link')],
        [
          [link, 'l'],
          [side, 'e'],
        ],
      )
    }
    const [own] = relationsBetween(schema, row, side)
    if (own) return made(`${side.sqlName} e`, [joinCondition(own, 't', 'e')], [[side, 'e']])
  }
  return null
}

const ADDRESS_TABLE_WORDS = toWordSet(
  'email mail address phone website url domain profile social link information info field mechanism method point detail communication data channel',
)
const MESSAGE_WORDS = toWordSet(
  'template log message campaign event queue thread inbox inboxes history audit draft attachment folder recipient notification import',
)

/** A table of addresses, and not one of messages. */
function isAddressTable(name: string): boolean {
  const words = splitIdentifier(name).map(singularize)
  return words.some((word) => ADDRESS_TABLE_WORDS.has(word)) && !words.some((word) => MESSAGE_WORDS.has(word))
}

interface ValueField {
  readonly field: CandidateField
  /** Which of the table's rows hold such a value. */
  readonly conditions: readonly string[]
}

/** In a table of addresses the value column may have any name, and a type beside it or in another table. */
function findValueField(
  schema: ClassifiedSchema,
  side: ClassifiedTable,
  role: RelatedRole,
): ValueField | undefined {
  const roleFields = role === 'domain' ? side.company : side.person
  const picked = roleFields.get(role)
  const normalized = role === 'email' ? normalizedEmail(side, picked) : undefined
  const value = side.fields.find(
    (field) =>
      field.fit.kind === 'text' &&
      (field.values.length === 0 || holdsAny(role, field.values)) &&
      /^(?:email |contact )?(?:address|value|name|url|data|content|detail)$/.test(field.words.join(' ')),
  )
  const typed = typeCondition(schema, side, role)
  if (typed !== null) {
    const field = normalized ?? picked ?? value
    return field && { field, conditions: [typed] }
  }
  if (role !== 'email' && value !== undefined && isMixed(value)) return byHost(value, role)
  if (normalized ?? picked) return { field: normalized ?? picked!, conditions: [] }
  const isNamedSo = side.table.name.toLowerCase().includes(role)
  return isNamedSo && value ? { field: value, conditions: [] } : undefined
}

/** Whether a column holds sites and profiles. */
const isMixed = ({ values }: CandidateField): boolean => {
  const social = values.filter((value) => SOCIAL_HOST.test(value)).length
  return social > 0 && social < values.length
}
const SOCIAL = '(linkedin|facebook|twitter|instagram|youtube|xing)[.]com|//(www[.])?x[.]com'
const SOCIAL_HOST = new RegExp(SOCIAL, 'i')

/** The values of the role in a column of addresses without a type: known by their host. */
function byHost(field: CandidateField, role: RelatedRole): ValueField {
  const sql = fieldSql(field, 'e')
  const condition =
    role === 'profile' ? `${sql} ~* 'linkedin[.]com/in/'` : `${sql} !~* ${quoteLiteral(SOCIAL)}`
  return { field, conditions: [condition] }
}

const TYPE_LABELS: Readonly<Record<RelatedRole, RegExp>> = {
  email: /^e?-?mail(?:[ _-]?address)?$/i,
  domain: /^(?:web ?site|web|url|domain|home ?page)$/i,
  profile: /^linked ?in$/i,
}

/** The condition for values of the role where each row has a type: a column, or a table of types. */
function typeCondition(
  { relations }: ClassifiedSchema,
  side: ClassifiedTable,
  role: RelatedRole,
): string | null {
  const isLabel = (label: string): boolean => TYPE_LABELS[role].test(label.trim())
  for (const field of side.fields) {
    if (field.path.length > 0 || !/^(?:type|kind|channel|label|field)$/.test(field.words.at(-1) ?? ''))
      continue
    const label = listKnownLabels(field, side.checkLabels).find(isLabel)
    if (label !== undefined) return `${fieldSql(field, 'e')} = ${quoteLiteral(label)}`
  }
  for (const relation of relations) {
    if (
      relation.from.table.sql !== side.table.sql ||
      !/type|kind|field|channel/i.test(relation.to.table.name)
    )
      continue
    const [key = '', target = ''] = [relation.columns[0], relation.targets[0]]
    for (const field of relation.to.fields) {
      const label =
        field.fit.kind === 'text' && field.path.length === 0 ? field.values.find(isLabel) : undefined
      if (label !== undefined)
        return `e.${quoteIfNeeded(key)} in (select y.${quoteIfNeeded(target)} from ${relation.to.sqlName} y where ${fieldSql(field, 'y')} = ${quoteLiteral(label)})`
    }
  }
  return null
}

/** A sub-select for a person's company name through a link table; null if there is none. Pure. */
export function linkedCompanySql(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  company: ClassifiedTable,
  name: CandidateField,
): string | null {
  for (const link of schema.tables) {
    if (link.kinds.length > 0) continue
    if (link.table.sql === row.table.sql || link.table.sql === company.table.sql) continue
    const [toRow] = relationsBetween(schema, link, row)
    const [toCompany] = relationsBetween(schema, link, company)
    if (!toRow || !toCompany || !useDifferentColumns(toRow, toCompany)) continue
    return subselect(
      fieldSql(name, 'a'),
      `${link.sqlName} l join ${company.sqlName} a on ${joinCondition(toCompany, 'l', 'a')}`,
      [
        joinCondition(toRow, 'l', 't'),
        ...exclusionConditions(link, 'l', 'link'),
        ...exclusionConditions(company, 'a', 'employer'),
      ],
      orderBySql([[link, 'l']]),
    )
  }
  return null
}

/** One column cannot lead to both tables: it is polymorphic and names the owner of the row. */
const useDifferentColumns = (one: TableRelation, other: TableRelation): boolean =>
  !one.columns.some((column) => other.columns.includes(column))

/** SQL: whether the related row meets a condition over `a`. */
export function relatedRowExists(
  relation: TableRelation,
  target: ClassifiedTable,
  condition: string,
): string {
  const reach = joinCondition({ ...relation, type: null }, 't', 'a')
  return `exists (select from ${target.sqlName} a where ${reach} and ${condition})`
}

/** A sub-select for a value of the related row. */
export function relatedRowSql(relation: TableRelation, target: ClassifiedTable, value: string): string {
  const untyped = { ...relation, type: null }
  return subselect(
    value,
    `${target.sqlName} a`,
    [joinCondition(untyped, 't', 'a'), ...exclusionConditions(target, 'a', 'company')],
    '',
  )
}

const subselect = (value: string, from: string, conditions: readonly string[], orderBy: string): string =>
  [
    `(select ${value}`,
    `   from ${from}`,
    `  where ${conditions.join('\n    and ')}`,
    `  ${orderBy}limit 1)`,
  ].join('\n')

function orderBySql(tables: ReadonlyArray<readonly [ClassifiedTable, string]>): string {
  const first = tables.flatMap(([{ fields }, alias]) =>
    fields
      .filter(
        ({ fit, words, path }) =>
          (fit.kind === 'boolean' || fit.kind === 'integer') &&
          path.length === 0 &&
          words.at(-1) !== 'id' &&
          words.some((word) => PRIMARY_WORDS.has(word)),
      )
      .map(
        (field) => `${alias}.${quoteIfNeeded(field.name)} desc${field.column.notNull ? '' : ' nulls last'}`,
      ),
  )
  const keys = tables
    .slice(0, 1)
    .flatMap(([{ table }, alias]) => table.primaryKey.map((column) => `${alias}.${quoteIfNeeded(column)}`))
  const all = [...first, ...keys]
  return all.length === 0 ? '' : `order by ${all.join(', ')} `
}

const PRIMARY_WORDS = toWordSet('primary main default preferred')
