import { type CandidateField, fieldSql } from './fields.ts'
import { type FlagTable, type RowFlag, isDate, isMostlyBlank, isReference, keepSql } from './flag-sql.ts'
import { isState, isTypeOrTag, labelFlags } from './label-flags.ts'
import { CHANNELS, DOUBTFUL, FILLERS, type Meaning, type RowContext, sayingOf } from './meanings.ts'
import { isKnownWord, splitIdentifier, toWordSet } from './words.ts'

/** When a consent was given says nothing beside whether it is. */
const withoutConsentDates = (flags: readonly RowFlag[]): RowFlag[] => {
  const isPlain = ({ meaning, keep }: RowFlag): boolean =>
    meaning === 'consent' && !keep.endsWith('is not null')
  return flags.filter(
    (flag) => flag.meaning !== 'consent' || isPlain(flag) || !flags.some((one) => isPlain(one)),
  )
}

/** Conditions that leave out rows which must not be enriched, by the flags and states that leave no doubt. Pure. */
export const exclusionConditions = (table: FlagTable, alias: string, context: RowContext): string[] =>
  readFlags(table, alias, context).flatMap(({ isSure, keep }) => (isSure ? [keep] : []))

/** The same, for the objections in a table of addresses only. Pure. */
export const objectionConditions = (table: FlagTable, alias: string): string[] =>
  readFlags(table, alias, 'address').flatMap(({ isSure, keep, meaning }) =>
    isSure && meaning === 'objection' ? [keep] : [],
  )

/** Every flag and state of a table. Pure. */
export function readFlags(table: FlagTable, alias: string, context: RowContext): RowFlag[] {
  const prefixes = sharedPrefixes(table)
  return withoutConsentDates(
    table.fields.flatMap((given) => {
      if (given.path.length > 2 || !given.column.canSelect) return []
      const field = { ...given, words: nameOf(given) }
      const sql = fieldSql(field, alias)
      const read = isState(field) ? null : flagMeaning(field, context, prefixes)
      const keep = read === null ? null : keepSql(field, sql, read.meaning, isMostlyBlank(field, table))
      if (
        context === 'person' &&
        field.fit.kind === 'text' &&
        field.words.some((word) => LOGIN_WORDS.has(word))
      )
        return [loginFlag(field, sql)]
      if (read !== null && keep !== null)
        return [
          {
            column: field.name,
            keep,
            when: `${field.name} is ${read.meaning === 'alive' || read.meaning === 'consent' ? 'not ' : ''}set`,
            ...read,
          },
        ]
      const isMain = context === 'person' || context === 'company'
      const isListed = context !== 'employer' && (isState(field) || (isMain && isTypeOrTag(field)))
      return isListed ? labelFlags(field, sql, table, context) : []
    }),
  )
}

const MEDIA = toWordSet(
  'email mail call phone sms text fax letter postal bulk newsletter campaign mailing send whatsapp',
)

/** How, by whom, or how far it was done: `admin_hidden`, `soft_deleted`, `erasure_requested_at`. */
const MODIFIERS = toWordSet(
  'allow allows allowed admin soft hard auto automatically manually system globally permanently global requested request marked self full by',
)

/** What another row's key says beside: `merged_into_id`, `converted_contact_id`. */
const LINK_WORDS = toWordSet(
  'id code number into with as to of opportunity deal master main guid uuid key sfid',
)

const OF_CONTEXT: Readonly<Record<RowContext, ReadonlySet<string>>> = {
  person: new Set(),
  company: new Set(),
  address: toWordSet('invalid bounced undeliverable bounce hold'),
  employer: new Set(),
  link: toWordSet('ended left end expired until invalid terminated'),
}

const DELETED = toWordSet('deleted removed trashed discarded erased voided purged anonymized merged')

const EMPLOYERS = toWordSet('company organization employer job business firm')

/** What several columns begin with and the vocabulary does not know: `msdyn_gdproptout`, `ctso_istestrecord`. */
function sharedPrefixes({ fields }: FlagTable): ReadonlySet<string> {
  const counts = new Map<string, number>()
  for (const { words, path } of fields) {
    const [first = ''] = words
    if (path.length === 0 && words.length > 1) counts.set(first, (counts.get(first) ?? 0) + 1)
  }
  return new Set([...counts].flatMap(([word, count]) => (count > 1 && !isKnownWord(word) ? [word] : [])))
}

const LOGIN_WORDS = toWordSet('password passwd pwd crypted')

/** Who has a password signs in to the program: staff, or a customer with a portal. */
const loginFlag = ({ name }: CandidateField, sql: string): RowFlag => ({
  column: name,
  meaning: 'staff',
  when: `${name} is set`,
  keep: `coalesce(${sql}, '') = ''`,
  isSure: false,
})

type Read = Pick<RowFlag, 'meaning' | 'isSure'>

/** What the name of a column says; null if it is no flag. */
function flagMeaning(field: CandidateField, context: RowContext, prefixes: ReadonlySet<string>): Read | null {
  const { words, fit, values } = field
  const rest = words.filter((word) => !FILLERS.has(word) || word === 'contact')
  if (context === 'employer')
    return rest.length === 1 && DELETED.has(rest[0] ?? '') ? { meaning: 'gone', isSure: true } : null
  if (words.join(' ') === 'status')
    return fit.kind === 'integer' && isZeroOrOne(values) ? { meaning: 'alive', isSure: true } : null
  // A person who has left is not at the company that the row names.
  if (context === 'person' && rest[0] === 'left' && rest.slice(1).every((word) => EMPLOYERS.has(word)))
    return { meaning: 'gone', isSure: true }
  if (
    words.some((word) => OF_CONTEXT[context].has(word)) &&
    words.every((word) => OF_CONTEXT[context].has(word) || FILLERS.has(word) || CHANNELS.has(word))
  )
    return { meaning: 'gone', isSure: true }
  const said = sayingOf(words)
  if (said === null && isDoubtfulDate(field, context)) return { meaning: 'gone', isSure: false }
  if (said === null) return null
  const isLink = isReference(field)
  const others = said.others.filter(
    (word) => !FILLERS.has(word) && !CHANNELS.has(word) && !MODIFIERS.has(word) && !prefixes.has(word),
  )
  const isAlone = isLink ? others.every((word) => LINK_WORDS.has(word)) : others.length === 0
  if (isLink && !/^(?:gone|converted)$/.test(said.meaning)) return null
  if (!isAlone) return fit.kind === 'boolean' ? { meaning: said.meaning, isSure: false } : null
  const isSure = isCertain(said.meaning, words, fit.kind, context)
  return { meaning: words.includes('newsletter') ? null : said.meaning, isSure }
}

/** Whether a flag of this meaning leaves out rows of this context for sure. */
function isCertain(meaning: Meaning, words: readonly string[], kind: string, context: RowContext): boolean {
  switch (meaning) {
    case 'objection':
      // Who left a newsletter has left a newsletter.
      if (words.includes('newsletter')) return false
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

/** `closed_at`, `terminated_on`: of a customer that is gone, or of a deal. */
const isDoubtfulDate = ({ words, fit }: CandidateField, context: RowContext): boolean => {
  const rest = words.filter((word) => !FILLERS.has(word))
  const isMain = context === 'person' || context === 'company'
  return isMain && isDate(fit.kind) && rest.length === 1 && DOUBTFUL.has(rest[0] ?? '')
}

const isZeroOrOne = (values: readonly string[]): boolean =>
  values.every((value) => value === '0' || value === '1') &&
  values.filter((value) => value === '1').length > values.length * 0.6

/** A key in json is read with the name of its column: `consent.marketing`. */
const nameOf = ({ words, path, column }: CandidateField): readonly string[] =>
  path.length === 0 ? words : [...[column.name, ...path.slice(0, -1)].flatMap(splitIdentifier), ...words]
