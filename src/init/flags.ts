import { type CandidateField, fieldSql } from './fields.ts'
import {
  type FlagTable,
  type RowFlag,
  isDate,
  isMostlyBlank,
  isReference,
  isWanted,
  keepSql,
  readSides,
} from './flag-sql.ts'
import { isState, isTypeOrTag, labelFlags } from './label-flags.ts'
import { CHANNELS, FILLERS, type Meaning, type RowContext, sayingOf } from './meanings.ts'
import { splitIdentifier, toWordSet } from './words.ts'

/** Conditions that leave out rows which must not be enriched, by the flags and states that leave no doubt. Pure. */
export const exclusionConditions = (table: FlagTable, alias: string, context: RowContext): string[] =>
  readFlags(table, alias, context).flatMap(({ isSure, keep }) => (isSure ? [keep] : []))

/** The same, for the objections in a table of addresses only. Pure. */
export const objectionConditions = (table: FlagTable, alias: string): string[] =>
  readFlags(table, alias, 'address').flatMap(({ isSure, keep, meaning }) =>
    isSure && meaning === 'objection' ? [keep] : [],
  )

/** Every flag and state of a table that is understood. Pure. */
export function readFlags(table: FlagTable, alias: string, context: RowContext): RowFlag[] {
  const isMain = context === 'person' || context === 'company'
  return table.fields.flatMap((given) => {
    if (given.path.length > 2 || !given.column.canSelect) return []
    const field = { ...given, words: nameOf(given) }
    const sql = fieldSql(field, alias)
    const read = isState(field) ? null : flagMeaning(field, context)
    const keep = read === null ? null : keepSql(field, sql, read.meaning, isMostlyBlank(field, table))
    if (read !== null && keep !== null)
      return [
        {
          column: field.name,
          keep,
          when: `${field.name} is ${isWanted(read.meaning) ? 'not ' : ''}set`,
          ...read,
        },
      ]
    const isListed = context !== 'employer' && (isState(field) || (isMain && isTypeOrTag(field)))
    return isListed ? labelFlags(field, alias, table, context) : []
  })
}

const MEDIA = toWordSet(
  'email mail call phone sms text fax letter postal bulk newsletter campaign mailing send whatsapp',
)

/** What ends the use of a row that is none of a person or a company. */
const OF_CONTEXT: Readonly<Partial<Record<RowContext, ReadonlySet<string>>>> = {
  address: toWordSet('invalid bounced undeliverable bounce hold'),
  employer: toWordSet('deleted removed trashed discarded erased voided purged anonymized merged'),
  link: toWordSet('ended left end expired until invalid terminated resubscribed lifted'),
}

type Read = Pick<RowFlag, 'meaning' | 'isSure'>

/** What the name of a column says; null if it is no flag. */
function flagMeaning(field: CandidateField, context: RowContext): Read | null {
  const { words, fit } = field
  const rest = words.filter((word) => !FILLERS.has(word) && !CHANNELS.has(word))
  const ended = OF_CONTEXT[context]
  if (rest.length > 0 && ended !== undefined && rest.every((word) => ended.has(word)))
    return { meaning: 'gone', isSure: true }
  const said = context === 'employer' ? null : sayingOf(words)
  if (said === null) return null
  if (isReference(field) && said.meaning !== 'gone' && said.meaning !== 'converted') return null
  // Who left a newsletter has left a newsletter.
  if (words.includes('newsletter')) return { meaning: null, isSure: false }
  const isAlone = said.others.every((word) => FILLERS.has(word) || CHANNELS.has(word))
  if (!isAlone) return readSides(field) === null ? null : { meaning: said.meaning, isSure: false }
  return { meaning: said.meaning, isSure: isCertain(said.meaning, words, fit.kind, context) }
}

/** Whether a flag of this meaning leaves out rows of this context for sure. */
function isCertain(meaning: Meaning, words: readonly string[], kind: string, context: RowContext): boolean {
  switch (meaning) {
    case 'objection':
      // Of a company, a closed channel concerns its people; it is not enriched to be written to.
      return context !== 'company' || !words.some((word) => MEDIA.has(word))
    case 'consent':
      // A date of the privacy policy says little; an acceptance of the terms says nothing.
      return context === 'person' && !isDate(kind)
    case 'staff':
      // Without `is`, other types than a boolean are names, roles or counters.
      return (
        words.includes('internal') || (context === 'person' && (kind === 'boolean' || words.includes('is')))
      )
    case 'private':
      return context === 'person' || words.includes('person')
    default:
      return true
  }
}

/** A key in json is read with the name of its column: `consent.marketing`. */
const nameOf = ({ words, path, column }: CandidateField): readonly string[] =>
  path.length === 0 ? words : [...[column.name, ...path.slice(0, -1)].flatMap(splitIdentifier), ...words]
