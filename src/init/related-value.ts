import { exclusionConditions } from './flags.ts'
import { labelsSql } from './flag-sql.ts'
import { listKnownLabels } from './row-filters.ts'
import { headNoun, splitIdentifier, toWordSet } from './words.ts'
import { quoteIfNeeded, quoteLiteral } from '../sources/quote.ts'
import { fieldSql, type CandidateField } from './fields.ts'
import { joinCondition, type TableRelation } from './relations.ts'
import { holdsAny } from './assign-roles.ts'
import type { ColumnRole } from './roles.ts'
import { isAddressTable } from './table-names.ts'
import { type Employer, relationsBetween, type ClassifiedTable, type ClassifiedSchema } from './classify.ts'

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
  const isFree = exclusionConditions(side, 'e', 'address', 'objection')
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
    // `profiles` has the key of `auth.users`, which has the address; `email_address` says to what it leads.
    const own = relationsBetween(schema, row, side).filter(({ type }) => type === null)
    const reference = own.find(
      ({ columns }) =>
        columns.join() === row.table.primaryKey.join() ||
        columns.some((column) => splitIdentifier(column).some((word) => TYPE_WORDS[role].has(word))),
    )
    if (!isPart && !reference && !isAddressTable(side.table.name)) continue
    const found = findValueField(side, role)
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
    const key = reference ?? own[0]
    if (key) return made(`${side.sqlName} e`, [joinCondition(key, 't', 'e')], [[side, 'e']])
  }
  return null
}

interface ValueField {
  readonly field: CandidateField
  /** Which of the table's rows hold such a value. */
  readonly conditions: readonly string[]
}

/** In a table of addresses the value column may have any name, and a type beside it. */
function findValueField(side: ClassifiedTable, role: RelatedRole): ValueField | undefined {
  const roleFields = role === 'domain' ? side.company : side.person
  const picked = roleFields.get(role)
  const value = side.fields.find(
    (field) =>
      field.fit.kind === 'text' &&
      (field.values.length === 0 || holdsAny(role, field.values)) &&
      /^(?:email |contact )?(?:address|value|name|url|data|content|detail)$/.test(field.words.join(' ')),
  )
  const typed = typeCondition(side, role)
  if (typed !== null) {
    const field = picked ?? value
    return field && { field, conditions: [typed] }
  }
  if (role !== 'email' && value !== undefined && isMixed(value)) return byHost(value, role)
  return picked && { field: picked, conditions: [] }
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

const TYPE_WORDS: Readonly<Record<RelatedRole, ReadonlySet<string>>> = {
  email: toWordSet('email mail'),
  domain: toWordSet('website web url domain site www'),
  profile: toWordSet('linkedin'),
}

/** The labels that mean the role. */
const labelsOfRole = (labels: readonly string[], role: RelatedRole): string[] =>
  labels.filter((label) => splitIdentifier(label).some((word) => TYPE_WORDS[role].has(word)))

/** The condition for values of the role where each row has a type in a column. */
function typeCondition(side: ClassifiedTable, role: RelatedRole): string | null {
  for (const field of side.fields) {
    if (
      field.path.length > 0 ||
      !/^(?:type|kind|channel|tag|field|category|code)$/.test(field.words.at(-1) ?? '')
    )
      continue
    const labels = labelsOfRole(listKnownLabels(field, side.checkLabels), role)
    if (labels.length > 0) return labelsSql(fieldSql(field, 'e'), labels)
  }
  return null
}

/** A sub-select for a person's company name through a link table; null if there is none. Pure. */
export function linkedCompanySql(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  company: ClassifiedTable,
  name: CandidateField,
): { readonly sql: string; readonly employer: Employer } | null {
  for (const link of schema.tables) {
    if (link.kinds.length > 0 || BUSINESS_NOUNS.has(headNoun(link.table.name))) continue
    if (link.table.sql === row.table.sql || link.table.sql === company.table.sql) continue
    const [toRow] = relationsBetween(schema, link, row)
    const [toCompany] = relationsBetween(schema, link, company)
    if (!toRow || !toCompany || !useDifferentColumns(toRow, toCompany)) continue
    const sql = subselect(
      fieldSql(name, 'a'),
      `${link.sqlName} l join ${company.sqlName} a on ${joinCondition(toCompany, 'l', 'a')}`,
      [
        joinCondition(toRow, 'l', 't'),
        ...exclusionConditions(link, 'l', 'link'),
        ...exclusionConditions(company, 'a', 'company', 'gone'),
      ],
      orderBySql([[link, 'l']]),
    )
    return { sql, employer: { company, relation: toCompany, link: { table: link, toRow } } }
  }
  return null
}

/** What a person and a company took part in does not make one the employer of the other. */
const BUSINESS_NOUNS = toWordSet(
  'lead deal activity opportunity order ticket task call event invoice note project quote contract message',
)

/** One column cannot lead to both tables: it is polymorphic and names the owner of the row. */
const useDifferentColumns = (one: TableRelation, other: TableRelation): boolean =>
  !one.columns.some((column) => other.columns.includes(column))

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

const PRIMARY_WORDS = toWordSet('primary main default preferred standard')
