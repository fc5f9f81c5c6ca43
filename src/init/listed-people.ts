import { type ClassifiedSchema, type ClassifiedTable, relationsBetween } from './classify.ts'
import { type RowFlag, negate, notExists } from './flag-sql.ts'
import { readFlags } from './flags.ts'
import { type CandidateField, fieldSql, quoteIfNeeded } from './fields.ts'
import { holdsAny } from './assign-roles.ts'
import { objectionLabels } from './label-flags.ts'
import { labelsSql } from './row-filters.ts'
import { joinCondition } from './relations.ts'
import { isStaffName } from './staff.ts'
import { HARMLESS_TABLES } from './vocabulary.ts'
import { singularize, splitIdentifier, toOwnWords, toWordSet } from './words.ts'

/** The column of a table that holds addresses, by its values or its name. */
const addressField = ({ fields }: ClassifiedTable): CandidateField | undefined => {
  const texts = fields.filter(
    ({ path, fit, column }) => path.length === 0 && fit.kind === 'text' && column.canSelect,
  )
  const named = texts.filter(({ words }) => words.includes('email'))
  return (
    named.find(({ values }) => values.length === 0 || holdsAny('email', values)) ??
    texts.find(({ values }) => holdsAny('email', values))
  )
}

/** SQL: whether an address is that of the person; or, in a list that has hosts, too, its host. */
function sameAddress(
  field: CandidateField,
  alias: string,
  email: string,
  host: CandidateField | undefined = undefined,
): string {
  if (host !== undefined)
    return `(${sameAddress(field, alias, email)} or lower(${fieldSql(host, alias)}) = split_part(lower(btrim(${email})), '@', 2))`
  const listed = `lower(${fieldSql(field, alias)})`
  const own = `lower(btrim(${email}))`
  const hasHosts = field.values.some((value) => !value.includes('@') && value.includes('.'))
  return hasHosts ? `${listed} in (${own}, split_part(${own}, '@', 2))` : `${listed} = ${own}`
}

/** SQL: whether a row of another table, `d`, is about this row, by key or else by address; null if neither tells. */
function sameRow(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  other: ClassifiedTable,
  email: string | null,
  host: CandidateField | undefined = undefined,
): string | null {
  const [relation] = relationsBetween(schema, other, row)
  if (relation !== undefined) return joinCondition(relation, 'd', 't')
  const address = email === null ? undefined : addressField(other)
  return address === undefined || email === null ? null : sameAddress(address, 'd', email, host)
}

/** A list of people who must not be contacted, by key or by address. */
export function suppressionFlags(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  list: ClassifiedTable,
  email: string | null,
): RowFlag[] {
  // When it was suppressed is what the list is about.
  const alive = readFlags(list, 'd', 'link').flatMap(({ isSure, meaning, keep }) =>
    isSure && meaning !== 'objection' ? [keep] : [],
  )
  const same = sameRow(schema, row, list, email, list.company.get('domain'))
  return same === null ? [] : [notExists(list.table.name, `${list.sqlName} d`, [same, ...alive])]
}

const SUBSCRIPTION_WORDS = toWordSet(
  'subscription subscriber interest consent preference newsletter permission gdpr privacy optin',
)

/** A table of subscriptions or consents: rows that say that a person has objected. */
export function subscriptionFlags(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  other: ClassifiedTable,
  email: string | null,
): RowFlag[] {
  if (other.kinds.length > 0) return []
  const isAboutConsent = splitIdentifier(other.table.name).some((word) =>
    SUBSCRIPTION_WORDS.has(singularize(word)),
  )
  const same = sameRow(schema, row, other, isAboutConsent ? email : null)
  if (same === null) return []
  const from = `${other.sqlName} d`
  const labels = other.fields.flatMap((field) => {
    const said = objectionLabels(field, other, isAboutConsent)
    return said.length === 0
      ? []
      : [notExists(other.table.name, from, [same, labelsSql(fieldSql(field, 'd'), said)])]
  })
  if (labels.length > 0 || !isAboutConsent) return labels
  const flags = readFlags(other, 'd', 'person').filter(
    ({ meaning }) => meaning === 'objection' || meaning === 'consent',
  )
  return flags.map(({ keep, isSure }) => notExists(other.table.name, from, [same, negate(keep)], isSure))
}

/** Few of the rows are listed in it, by key or by address: perhaps for a reason against them. */
export function listedFlags(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  other: ClassifiedTable,
  email: string | null,
): RowFlag[] {
  const { table, kinds, isUsers, isTenants } = other
  const words = splitIdentifier(table.name).map(singularize)
  if (kinds.length > 0 || isUsers || isTenants || words.some((word) => HARMLESS_TABLE_WORDS.has(word)))
    return []
  // Of rows of several tables, this one's are not all that it lists.
  if (relationsBetween(schema, other, row)[0]?.type) return []
  const same = sameRow(schema, row, other, email)
  if (same === null) return []
  const flag = notExists(table.name, `${other.sqlName} d`, [same], false, `it is listed in ${other.sqlName}`)
  return [{ ...flag, isOfOther: true }]
}

const HARMLESS_TABLE_WORDS = toWordSet(HARMLESS_TABLES)

/** The addresses of the users' own staff. */
export function staffFlags(other: ClassifiedTable, email: string | null): RowFlag[] {
  const address = other.isUsers && email !== null ? addressField(other) : undefined
  if (address === undefined || email === null) return []
  const flag = notExists(
    other.table.name,
    `${other.sqlName} u`,
    [sameAddress(address, 'u', email)],
    isStaffName(other.table.name),
    `the address is one of ${other.sqlName}`,
  )
  return [{ ...flag, meaning: 'staff' }]
}

/** Rows that another table lists as merged away: `contact_merge_audit.vid_to_merge`. */
export function mergeFlags(schema: ClassifiedSchema, row: ClassifiedTable): RowFlag[] {
  const [key, ...more] = row.table.primaryKey
  if (key === undefined || more.length > 0) return []
  const own = toOwnWords(row.table.name)
  return schema.tables.flatMap((other) => {
    const words = splitIdentifier(other.table.name)
    if (!words.includes('merged') || !words.some((word) => own.has(word) || own.has(singularize(word))))
      return []
    const field = other.fields.find(
      (one) =>
        one.path.length === 0 &&
        one.words.includes('merged') &&
        one.values.length > 0 &&
        one.fit.kind !== 'boolean',
    )
    return field === undefined
      ? []
      : [
          notExists(other.table.name, `${other.sqlName} m`, [
            `${fieldSql(field, 'm')}::text = t.${quoteIfNeeded(key)}::text`,
          ]),
        ]
  })
}
