import type { CandidateField } from './fields.ts'
import { type FlagTable, type RowFlag, isMostlyBlank, notInSql } from './flag-sql.ts'
import { type Meaning, type RowContext, isRefusal, labelMeaning } from './meanings.ts'
import { listKnownLabels, meaningOf } from './row-filters.ts'

export const isState = ({ words, fit, path, codes }: CandidateField): boolean =>
  (fit.kind === 'text' || fit.kind === 'enum' || fit.kind === 'jsonb' || codes !== undefined) &&
  path.length <= 1 &&
  /^(?:\S+ ){0,4}(?:status|state|lifecycle|stage|situation)(?: code| c)?$/.test(words.join(' '))

/** A column whose labels may say so, too: consent, type, category. Its other labels raise no question. */
export const isTypeOrTag = ({ words, fit, path }: CandidateField): boolean =>
  (fit.kind === 'text' || fit.kind === 'enum' || (fit.kind === 'jsonb' && path.length === 1)) &&
  (isConsent(words) || /\b(?:type|kind|category|class|group|segment|basis|tag|code)$/.test(words.join(' ')))

const isConsent = (words: readonly string[]): boolean =>
  words.some((word) => word === 'consent' || word === 'gdpr' || word === 'opt')

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
  sql: string,
  table: FlagTable,
  context: RowContext,
): RowFlag[] {
  const labels = listKnownLabels(field, table.checkLabels)
  const meanings = new Map(labels.map((label) => [label, sureMeaning(label, field, context)]))
  return [...new Set(meanings.values())].flatMap((meaning) => {
    const some = labels.filter((label) => meanings.get(label) === meaning)
    if (meaning === null || (some.length === labels.length && !isMostlyBlank(field, table))) return []
    return [
      {
        column: field.name,
        meaning,
        when: `${field.name} is ${some.map((label) => meaningOf(field, label)).join(' or ')}`,
        keep: notInSql(sql, some, field),
        isSure: true,
      },
    ]
  })
}

/** What a label of a state, a type or a tag says without doubt; null if it says nothing. Pure. */
export function sureMeaning(code: string, field: CandidateField, context: RowContext): Meaning | null {
  if (!isState(field) && !isTypeOrTag(field)) return null
  const label = meaningOf(field, code)
  const meaning = labelMeaning(label, context)
  if (isConsent(field.words) && context !== 'company' && meaning === null)
    return isRefusal(label) ? 'objection' : null
  // A type says what a row is; a state says only in passing that it is private or staff's.
  return isState(field) && (meaning === 'private' || meaning === 'staff') ? null : meaning
}
