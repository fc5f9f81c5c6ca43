import { quoteLiteral } from '../sources/quote.ts'
import { type CandidateField, fieldSql } from './fields.ts'
import type { IntrospectedTable } from './introspect.ts'
import { listKnownLabels } from './row-filters.ts'
import { splitIdentifier, toWordSet } from './identifier-words.ts'

/**
 * What a table's rows are: some flags concern only one of them. An employer's name is of use until the row is deleted.
 */
export type RowContext = 'person' | 'company' | 'address' | 'link' | 'employer'

/**
 * Conditions that leave out rows that must not be enriched, by the flags and the states that such systems keep:
 * deleted, archived, blocked, opted out, do not call, test data, own staff. Pure.
 */
export function exclusionConditions(
  table: Pick<IntrospectedTable, 'fields' | 'checkLabels'>,
  alias: string,
  context: RowContext,
): string[] {
  return conditionsOf(table, alias, context, () => true)
}

/** The same, for the opt-outs of a table of addresses only. Pure. */
export const optOutConditions = (
  table: Pick<IntrospectedTable, 'fields' | 'checkLabels'>,
  alias: string,
): string[] => conditionsOf(table, alias, 'address', (meaning) => meaning === 'opt out')

function conditionsOf(
  table: Pick<IntrospectedTable, 'fields' | 'checkLabels'>,
  alias: string,
  context: RowContext,
  isWanted: (meaning: Meaning) => boolean,
): string[] {
  return table.fields.flatMap((field) => {
    if (field.path.length > 0 || !field.column.canSelect) return []
    const sql = fieldSql(field, alias)
    const meaning = isState(field) ? 'gone' : flagMeaning(field, context)
    if (meaning === null || !isWanted(meaning) || (context === 'employer' && isState(field))) return []
    const condition = isState(field)
      ? stateCondition(field, sql, listKnownLabels(field, table.checkLabels))
      : flagCondition(field, sql, meaning)
    return condition === null ? [] : [condition]
  })
}

/** A row with such a flag is gone, or not to be contacted. */
const GONE = toWordSet(
  `deleted removed archived trashed discarded anonymized anonymization erased voided purged forgotten redacted disabled
   deactivated inactive suspended blocked banned blacklisted blacklist blocklisted blocklist spam merged duplicate test demo
   dead deceased internal hidden confidential unsubscribed unsubscribe suppressed dnc quarantined`,
)
const GONE_BY_CONTEXT: Readonly<Record<RowContext, ReadonlySet<string>>> = {
  person: new Set(),
  company: new Set(),
  address: toWordSet('invalid bounced undeliverable bounce hold'),
  employer: new Set(),
  link: toWordSet('ended left end expired until invalid terminated'),
}
/** Only as a boolean: in other types these are names, roles or counters. */
const STAFF_FLAGS = toWordSet('staff admin administrator superuser superadmin employee agent moderator bot')
const ALIVE = toWordSet('active enabled published')
const CHANNELS = toWordSet(
  'email emails mail call calls phone contact contacted sms marketing newsletter campaign bulk mailing all track trade',
)
const FILLERS = toWordSet(
  'at on date time is has was been flag of from the gdpr record row account user customer lead',
)

/** How a row was removed: `admin_hidden`, `soft_deleted`. */
const MODIFIERS = toWordSet('admin soft hard auto automatically manually system globally permanently')
const EMPLOYERS = toWordSet('company organization employer job business firm')

const isZeroOrOne = (values: readonly string[]): boolean =>
  values.every((value) => value === '0' || value === '1') &&
  values.filter((value) => value === '1').length > values.length * 0.6

type Meaning = 'gone' | 'opt out' | 'alive'

const DELETED = toWordSet('deleted removed trashed discarded erased voided purged anonymized merged')

function flagMeaning({ words, fit, values }: CandidateField, context: RowContext): Meaning | null {
  const rest = words.filter((word) => !FILLERS.has(word))
  const others = rest.filter((word) => !CHANNELS.has(word))
  const phrase = others.join(' ')
  if (context === 'employer') return rest.length === 1 && DELETED.has(rest[0] ?? '') ? 'gone' : null
  // A company is not contacted: an opt-out concerns its people.
  if (phrase === 'opt out') return context === 'company' ? null : 'opt out'
  // `do_not_call` and `no_email`, but not `no_of_calls` or the number column `phone_no`.
  if (phrase === 'no' && rest[0] === 'no' && rest.length > 1 && !words.includes('of'))
    return context === 'company' ? null : 'opt out'
  // A number, 0 and 1: whether the row is in use.
  if (words.join(' ') === 'status') return fit.kind === 'integer' && isZeroOrOne(values) ? 'alive' : null
  // A person who has left is not at the company that the row names.
  if (context === 'person' && rest[0] === 'left' && rest.slice(1).every((word) => EMPLOYERS.has(word)))
    return 'gone'
  if (words.join(' ') === 'private' && context === 'person') return 'gone'
  const plain = rest.filter((word) => !MODIFIERS.has(word))
  const [word = '', ...more] = context === 'address' ? others : plain.length > 0 ? plain : rest
  if (more.length > 0) return null
  if (ALIVE.has(word)) return 'alive'
  if (GONE.has(word) || GONE_BY_CONTEXT[context].has(word)) return 'gone'
  return context === 'person' && fit.kind === 'boolean' && STAFF_FLAGS.has(word) ? 'gone' : null
}

/** SQL: whether a flag lets the row be used; null if the column is no flag that can be read. */
function flagCondition(field: CandidateField, sql: string, meaning: Meaning): string | null {
  const { notNull } = field.column
  const { kind } = field.fit
  switch (kind) {
    case 'boolean':
      if (meaning !== 'alive') return notNull ? `not ${sql}` : `${sql} is not true`
      return notNull ? sql : `${sql} is not false`
    case 'timestamp':
    case 'timestamptz':
    case 'date':
      return meaning === 'alive' ? null : `${sql} is null`
    case 'integer':
    case 'numeric': {
      // Other numbers beside 0 are times, counters or kinds of the same flag.
      const isFlag = field.values.every((value) => value === '0' || value === '1')
      if (!isFlag && !(meaning !== 'alive' && field.values.includes('0'))) return null
      if (meaning !== 'alive') return notNull ? `${sql} = 0` : `coalesce(${sql}, 0) = 0`
      return notNull ? `${sql} <> 0` : `coalesce(${sql}, 1) <> 0`
    }
    case 'text':
    case 'enum':
      return textFlagCondition(field, sql, meaning)
    default:
      return null
  }
}

/** The two texts that mean yes and no. */
const TEXT_FLAGS = ['1 0', 'y n', 'yes no', 'true false', 't f', 'on off'].map((pair) => pair.split(' '))

/** `Y` and `N`, `1` and `0` in a text column, spelled as the sample spells them. */
function textFlagCondition(field: CandidateField, sql: string, meaning: Meaning): string | null {
  const values = new Set(field.values.map((value) => value.trim()))
  const [side, counter] = meaning === 'alive' ? [1, 0] : [0, 1]
  const known = [...values].every((value) => TEXT_FLAGS.flat().includes(value.toLowerCase()))
  if (values.size === 0 || values.size > 4 || !known) return null
  const unwanted = new Set<string>()
  for (const value of values)
    for (const pair of TEXT_FLAGS) {
      const [own = '', opposite = ''] = [pair[side], pair[counter]]
      if (value.toLowerCase() === own) unwanted.add(value)
      else if (value.toLowerCase() === opposite)
        unwanted.add(value === value.toUpperCase() ? own.toUpperCase() : own)
    }
  return unwanted.size === 0 ? null : notInSql(sql, [...unwanted], field)
}

/** "Do not contact" is what a person said; "no contact" is how a call went. */
const REFUSED = /\b(?:do[\s_-]?not|don['’]?t|never)[\s_-]*(?:contact|call|e-?mail|mail|disturb)|^dnc$/i
const OPTED_OUT = /\b(?:unsubscribed|opt out|blocklisted|blacklisted|complained)\b/
const saysNo = (label: string): boolean =>
  REFUSED.test(label.trim()) || OPTED_OUT.test(splitIdentifier(label).join(' '))

/** The labels of a state column that say so. Pure. */
export const optOutLabels = (
  field: CandidateField,
  { checkLabels }: Pick<IntrospectedTable, 'checkLabels'>,
): string[] =>
  field.path.length > 0 || !isState(field) ? [] : listKnownLabels(field, checkLabels).filter(saysNo)

const isState = ({ words, fit }: CandidateField): boolean =>
  (fit.kind === 'text' || fit.kind === 'enum') &&
  /^(?:(?:lead|contact|record|customer|account|lifecycle|member|user|company|subscription) )*(?:status|state|lifecycle|stage)$/.test(
    words.join(' '),
  )

/** Words of a state that ends a row's use. "Lost", "dead" or "converted" do not: the person is still a contact. */
const GONE_STATES = toWordSet(
  `deleted archived inactive blocked banned spam junk trash trashed disabled deactivated suspended anonymized unsubscribed
   merged duplicate blacklisted blocklisted denylisted suppressed complained deceased erased purged discarded removed
   quarantined hidden`,
)

function stateCondition(field: CandidateField, sql: string, labels: readonly string[]): string | null {
  const gone = labels.filter((label) => {
    const words = splitIdentifier(label)
    return (
      words.length <= 4 &&
      (words.some((word) => GONE_STATES.has(word)) || saysNo(label)) &&
      !words.includes('not') &&
      words[0] !== 'un'
    )
  })
  return gone.length === 0 || gone.length === labels.length ? null : notInSql(sql, gone, field)
}

function notInSql(sql: string, values: readonly string[], { column }: CandidateField): string {
  const list = values.map(quoteLiteral).join(', ')
  if (values.length === 1) return column.notNull ? `${sql} <> ${list}` : `${sql} is distinct from ${list}`
  return column.notNull ? `${sql} not in (${list})` : `(${sql} is null or ${sql} not in (${list}))`
}
