import { type ClassifiedSchema, type ClassifiedTable, relationsBetween } from './classify.ts'
import { type RowFlag, negate, notExists } from './flag-sql.ts'
import { readFlags } from './flags.ts'
import { type CandidateField, fieldSql } from './fields.ts'
import { holdsAny } from './assign-roles.ts'
import { objectionLabels } from './label-flags.ts'
import { labelsSql } from './row-filters.ts'
import { joinCondition } from './relations.ts'
import { isStaffName } from './staff.ts'
import { isSuppressionName } from './table-names.ts'
import { HARMLESS_TABLES } from './vocabulary.ts'
import { singularize, splitIdentifier, toWordSet } from './words.ts'

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
function sameAddress(field: CandidateField, email: string): string {
  const listed = `lower(${fieldSql(field, 'd')})`
  const own = `lower(btrim(${email}))`
  const hasHosts = field.values.some((value) => !value.includes('@') && value.includes('.'))
  return hasHosts ? `${listed} in (${own}, split_part(${own}, '@', 2))` : `${listed} = ${own}`
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
  const [relation] = relationsBetween(schema, other, row)
  const address = email === null ? undefined : addressField(other)
  const byAddress = address === undefined || email === null ? null : sameAddress(address, email)
  const same = relation === undefined ? byAddress : joinCondition(relation, 'd', 't')
  const listed = (conditions: readonly string[], more: Partial<RowFlag> = {}): RowFlag => ({
    ...notExists(table.name, `${sqlName} d`, conditions, `it is listed in ${sqlName}`),
    ...more,
  })
  if (isSuppressionName(table.name)) {
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
  const labels = other.fields.flatMap((field) => {
    const said = objectionLabels(field, other, isAboutConsent)
    return said.length === 0 ? [] : [listed([same, labelsSql(fieldSql(field, 'd'), said)])]
  })
  if (labels.length > 0) return labels
  const flags = readFlags(other, 'd', 'person').filter(
    ({ meaning }) => isAboutConsent && (meaning === 'objection' || meaning === 'consent'),
  )
  if (flags.length > 0) return flags.map(({ keep, isSure }) => listed([same, negate(keep)], { isSure }))
  // Of rows of several tables, this one's are not all that it lists.
  const isHarmless = isTenants || relation?.type || words.some((word) => HARMLESS_TABLE_WORDS.has(word))
  return isHarmless ? [] : [listed([same], { meaning: null, isSure: false, isOfOther: true })]
}
