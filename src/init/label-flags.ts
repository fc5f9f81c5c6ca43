import { quoteLiteral } from '../sources/quote.ts'
import type { CandidateField } from './fields.ts'
import { type FlagTable, type RowFlag, isMostlyBlank, notInSql } from './flag-sql.ts'
import { DOUBTFUL, type Meaning, type RowContext, isRefusal, labelMeaning } from './meanings.ts'
import { listKnownLabels, meaningOf } from './row-filters.ts'
import { splitIdentifier } from './words.ts'

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

/** The labels of a state, a type or a tag that leave a row out, and those that may. */
export function labelFlags(
  field: CandidateField,
  sql: string,
  table: FlagTable,
  context: RowContext,
): RowFlag[] {
  const labels = listKnownLabels(field, table.checkLabels)
  const meanings = new Map(
    labels.flatMap((label) => {
      const meaning = sureMeaning(label, field, context)
      return meaning === null ? [] : [[label, meaning] as const]
    }),
  )
  const doubtful =
    context !== 'person' && context !== 'company'
      ? []
      : labels.filter(
          (label) =>
            !meanings.has(label) &&
            isState(field) &&
            splitIdentifier(meaningOf(field, label)).some((word) => DOUBTFUL.has(word)),
        )
  if (meanings.size === 0 && doubtful.length === 0 && isState(field) && areCodes(labels, field))
    return codeFlags(field, sql)
  const flag = (some: readonly string[], meaning: Meaning, isSure = true): RowFlag[] =>
    some.length === 0 || (some.length === labels.length && !isMostlyBlank(field, table))
      ? []
      : [
          {
            column: field.name,
            meaning,
            when: `${field.name} is ${some.map((label) => meaningOf(field, label)).join(' or ')}`,
            keep: notInSql(sql, some, field),
            isSure,
          },
        ]
  const saying = (meaning: Meaning): string[] => labels.filter((label) => meanings.get(label) === meaning)
  return [
    ...[...new Set(meanings.values())].flatMap((meaning) => flag(saying(meaning), meaning)),
    ...flag(doubtful, 'gone', false),
  ]
}

/** Letters that no comment explains. */
const areCodes = (labels: readonly string[], { codes }: CandidateField): boolean =>
  codes === undefined &&
  labels.length > 1 &&
  labels.length <= 8 &&
  labels.every((label) => /^[A-Z0-9]{1,2}$/i.test(label))

/** A state kept as a number or a letter: the most common one is probably that of a row in use. */
export function codeFlags(field: CandidateField, sql: string): RowFlag[] {
  const { path, words, values, name, fit } = field
  if (path.length > 0 || !/(?:status|state|lifecycle|stage)(?: code)?$/.test(words.join(' '))) return []
  const counts = new Map<string, number>()
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1)
  const [most] = [...counts].toSorted((a, b) => b[1] - a[1])
  if (most === undefined || counts.size < 2 || counts.size > 8) return []
  // If the others are few, they are probably what has ended; else all of them may be states of use.
  const isRare = most[1] >= values.length * 0.7
  return [
    {
      column: name,
      meaning: isRare ? 'gone' : null,
      when: `${name} is not ${most[0]}`,
      keep: `${sql} = ${fit.kind === 'integer' ? most[0] : quoteLiteral(most[0])}`,
      isSure: false,
    },
  ]
}

function sureMeaning(code: string, field: CandidateField, context: RowContext): Meaning | null {
  const label = meaningOf(field, code)
  const meaning = labelMeaning(label, context)
  if (isConsent(field.words) && context !== 'company' && meaning === null)
    return isRefusal(label) ? 'objection' : null
  // A type says what a row is; a state says only in passing that it is private or staff's.
  return isState(field) && (meaning === 'private' || meaning === 'staff') ? null : meaning
}
