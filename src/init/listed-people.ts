import { quoteIfNeeded } from '../sources/quote.ts'
import { type ClassifiedSchema, type ClassifiedTable, relationsBetween } from './classify.ts'
import { type RowFlag, isDate, notExists, readSides } from './flag-sql.ts'
import { readFlags } from './flags.ts'
import { type CandidateField, fieldSql } from './fields.ts'
import { holdsAny } from './assign-roles.ts'
import { joinCondition } from './relations.ts'
import { isStaffName } from './staff.ts'
import { isSuppressionName } from './table-names.ts'
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

/** SQL: whether an address in `d` is that of the person; or, in a list that has hosts, too, its host. */
function sameAddress(field: CandidateField, host: CandidateField | undefined, email: string): string {
  const listed = `lower(${fieldSql(field, 'd')})`
  const own = `lower(btrim(${email}))`
  const ownHost = `split_part(${own}, '@', 2)`
  if (host !== undefined && host !== field)
    return `(${listed} = ${own} or lower(${fieldSql(host, 'd')}) = ${ownHost})`
  const hasHosts = field.values.some((value) => !value.includes('@') && value.includes('.'))
  return hasHosts ? `${listed} in (${own}, ${ownHost})` : `${listed} = ${own}`
}

/** SQL: whether a row of an audit of merges is about this row, and took it away; null if the table is none. */
function sameMerged(row: ClassifiedTable, { table, fields }: ClassifiedTable): string | null {
  const [key, ...more] = row.table.primaryKey
  const words = splitIdentifier(table.name)
  const own = toOwnWords(row.table.name)
  if (key === undefined || more.length > 0) return null
  if (!words.includes('merged') || !words.some((word) => own.has(word))) return null
  const gone = fields.find((one) => one.words.includes('merged') && !isDate(one.fit.kind) && !readSides(one))
  // Such an audit is written by another program, which may keep its keys in another type.
  return gone === undefined ? null : `${fieldSql(gone, 'd')}::text = t.${quoteIfNeeded(key)}::text`
}

const CONSENT_TABLES = toWordSet(
  'subscription subscriber interest consent preference newsletter permission gdpr privacy optin',
)
const HARMLESS_TABLE_WORDS = toWordSet(HARMLESS_TABLES)

/**
 * What it says of a person that another table has a row about them, by key or by address: that they objected, are staff, or
 * perhaps something else against them. Pure.
 */
export function listedFlags(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  other: ClassifiedTable,
  email: string | null,
): RowFlag[] {
  const { table, kinds, sqlName, isUsers, isTenants } = other
  const words = splitIdentifier(table.name).map(singularize)
  const isList = isSuppressionName(table.name)
  const [relation] = relationsBetween(schema, other, row)
  const address = email === null ? undefined : addressField(other)
  const byAddress =
    address === undefined || email === null
      ? null
      : sameAddress(address, isList ? other.company.get('domain') : undefined, email)
  const same = relation === undefined ? byAddress : joinCondition(relation, 'd', 't')
  const listed = (conditions: readonly string[], more: Partial<RowFlag> = {}): RowFlag => ({
    ...notExists(table.name, `${sqlName} d`, conditions, `it is listed in ${sqlName}`),
    ...more,
  })
  const merged = sameMerged(row, other)
  if (merged !== null) return [listed([merged], { meaning: 'gone' })]
  if (isList) {
    // When it was suppressed is what the list is about.
    const alive = readFlags(other, 'd', 'link').filter(
      ({ isSure, meaning }) => isSure && meaning !== 'objection',
    )
    return same === null ? [] : [listed([same, ...alive.map(({ keep }) => keep)])]
  }
  if (isUsers)
    return byAddress === null
      ? []
      : [
          listed([byAddress], {
            meaning: 'staff',
            isSure: isStaffName(table.name),
            when: `the address is one of ${sqlName}`,
          }),
        ]
  if (kinds.length > 0 || same === null) return []
  const isAboutConsent = words.some((word) => CONSENT_TABLES.has(word))
  const flags = readFlags(other, 'd', 'person').flatMap(({ meaning, out, isSure, isLabel }) => {
    const isReason =
      meaning === 'objection' ||
      (isAboutConsent && (meaning === 'consent' || (isLabel && meaning === 'gone')))
    return isReason ? [listed([same, out], { isSure })] : []
  })
  if (flags.length > 0) return flags
  // Of rows of several tables, this one's are not all that it lists.
  const isHarmless = isTenants || relation?.type || words.some((word) => HARMLESS_TABLE_WORDS.has(word))
  return isHarmless ? [] : [listed([same], { meaning: null, isSure: false, isOfOther: true })]
}
