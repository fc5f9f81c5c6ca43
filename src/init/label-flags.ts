import { type CandidateField, fieldSql } from './fields.ts'
import { type FlagTable, type RowFlag, arraySql, isMostlyBlank, notInSql } from './flag-sql.ts'
import { type Meaning, type RowContext, isRefusal, labelMeaning } from './meanings.ts'
import { listKnownLabels, meaningOf } from './row-filters.ts'

export const isState = ({ words, fit, path, codes }: CandidateField): boolean =>
  (fit.kind === 'text' || fit.kind === 'enum' || fit.kind === 'jsonb' || codes !== undefined) &&
  path.length <= 1 &&
  /^(?:\S+ ){0,4}(?:status|state|lifecycle|stage|situation)(?: code| c)?$/.test(words.join(' '))

/** A column whose labels may say so, too: tags, consent, type, category. */
export const isTypeOrTag = ({ words, fit, path }: CandidateField): boolean =>
  (fit.kind === 'array' && path.length === 0) ||
  ((fit.kind === 'text' || fit.kind === 'enum' || (fit.kind === 'jsonb' && path.length === 1)) &&
    (isConsent(words) ||
      /\b(?:type|kind|category|class|group|segment|basis|tag|code)$/.test(words.join(' '))))

const isConsent = (words: readonly string[]): boolean => /\b(?:consent|gdpr|opt)\b/.test(words.join(' '))

/** The labels of a state column that say that a person objected. Pure. */
export const objectionLabels = (
  field: CandidateField,
  { checkLabels }: FlagTable,
  isAboutConsent: boolean,
): string[] =>
  field.path.length > 0 || !(isState(field) || (isAboutConsent && isTypeOrTag(field)))
    ? []
    : listKnownLabels(field, checkLabels).filter((code) => {
        const label = meaningOf(field, code)
        const meaning = labelMeaning(label, 'person')
        return meaning === 'objection' || (isAboutConsent && (meaning === 'gone' || isRefusal(label)))
      })

/** The labels of a state, a type or a tag that leave a row out. */
export function labelFlags(
  field: CandidateField,
  alias: string,
  table: FlagTable,
  context: RowContext,
): RowFlag[] {
  const labels = listKnownLabels(field, table.checkLabels)
  const byMeaning = Map.groupBy(labels, (label) => sureMeaning(label, field, context))
  return [...byMeaning].flatMap(([meaning, some]) => {
    if (meaning === null || (some.length === labels.length && !isMostlyBlank(field, table))) return []
    const when = `${field.name} is ${some.map((label) => meaningOf(field, label)).join(' or ')}`
    return [{ column: field.name, meaning, when, keep: withoutSql(field, alias, some), isSure: true }]
  })
}

/** SQL: whether a column has none of the labels. */
export const withoutSql = (field: CandidateField, alias: string, labels: readonly string[]): string =>
  field.fit.kind === 'array'
    ? arraySql(field, alias, labels)
    : notInSql(fieldSql(field, alias), labels, field)

/** What a label of a state, a type or a tag says without doubt; null if it says nothing. Pure. */
export function sureMeaning(code: string, field: CandidateField, context: RowContext): Meaning | null {
  if (!isState(field) && !isTypeOrTag(field)) return null
  const label = meaningOf(field, code)
  const meaning = labelMeaning(label, context)
  if (meaning === null)
    return isConsent(field.words) && context !== 'company' && isRefusal(label) ? 'objection' : null
  return meaning
}
