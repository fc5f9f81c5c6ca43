import type { SourceKind } from '../domain/mapping.ts'
import type { RoleFields } from './assign-roles.ts'
import { type CandidateField, fieldSql } from './fields.ts'
import {
  type RowFlag,
  isDate,
  isMostlyBlank,
  isReference,
  flagSql,
  holdsDates,
  isSetSql,
  isTagList,
  isWanted,
  keepOf,
  readSides,
  someOfSql,
} from './flag-sql.ts'
import {
  CHANNELS,
  DOUBTFUL,
  FILLERS,
  type Meaning,
  type RowContext,
  concerns,
  isRefusal,
  labelMeaning,
  sayingOf,
} from './meanings.ts'
import type { IntrospectedTable } from './introspect.ts'
import { listKnownLabels, meaningOf } from './row-filters.ts'
import { HARMLESS, HARMLESS_DATES, HARMLESS_KEYS, HARMLESS_LISTS, IN_USE } from './harmless.ts'
import { hasWord, splitIdentifier, toWordSet } from './words.ts'

export type FlagTable = Pick<IntrospectedTable, 'fields' | 'sampled'> &
  Partial<Pick<IntrospectedTable, 'table'> & { readonly references: ReadonlySet<string> }>

/** What a name or a label says of a row; without a meaning it is not understood. */
type Said = Pick<RowFlag, 'meaning' | 'isSure'>
const UNKNOWN: Said = { meaning: null, isSure: false }

/** What a column of a table says of its rows. */
export interface ReadFlag extends RowFlag {
  /** SQL: which rows it leaves out. */
  readonly out: string
  /** Whether it is one of several labels. */
  readonly isLabel: boolean
}

/** Conditions that leave out rows which must not be enriched, by the flags and states that leave no doubt. Pure. */
export const exclusionConditions = (
  table: FlagTable,
  alias: string,
  context: RowContext,
  only: Meaning | null = null,
): string[] =>
  readFlags(table, alias, context).flatMap(({ isSure, keep, meaning }) =>
    isSure && (only === null || meaning === only) ? [keep] : [],
  )

/** What divides the rows of a table: flags, dates and keys that few rows have, labels of short lists and tags. Pure. */
export const readFlags = (table: FlagTable, alias: string, context: RowContext): ReadFlag[] =>
  table.fields.flatMap((field) =>
    (field.path.length > 2 && !isTagList(field)) ||
    !field.column.canSelect ||
    table.table?.primaryKey.includes(field.name)
      ? []
      : readField(field, table, alias, context),
  )

function readField(
  field: CandidateField,
  table: FlagTable,
  alias: string,
  context: RowContext,
): readonly ReadFlag[] {
  const { fit, path, words, values } = field
  const isTag = isTagList(field)
  const name = isTag ? field.column.name : field.name
  const flag = (is: string, out: string, said: Said): ReadFlag => ({
    column: name,
    when: `${name} ${is}`,
    out,
    keep: keepOf(out),
    isLabel: false,
    ...said,
  })
  const isRare = isMostlyBlank(field, table)
  const isMain = context === 'person' || context === 'company'
  const said = isTag ? null : readName(field, context)
  // What ends at a day to come is not ended.
  const isEnd = !isMain && isDate(fit.kind) && hasWord(words, ENDED)
  const out = isEnd
    ? `${fieldSql(field, alias)} <= now()`
    : said && flagSql(field, alias, said.meaning, isRare)
  if (said && out) return [flag(isWanted(said.meaning) ? 'is not set' : 'is set', out, said)]
  if (!isTag && (path.length > 1 || (path.length === 1 && fit.kind !== 'jsonb'))) return []
  const isKey = table.references?.has(name) || (isReference(field) && !isList(field))
  if (holdsDates(field) || isKey) {
    const isHarmless = hasWord(words, isKey ? HARMLESS_KEY_WORDS : HARMLESS_DATE_WORDS)
    return isHarmless || !isRare ? [] : [flag('is set', isSetSql(field, alias), UNKNOWN)]
  }
  const sides = readSides(field)
  if (sides === null)
    return readLabels(field, table, context).map(({ codes, said: one }) => {
      const labels = codes.map((code) => meaningOf(field, code)).join(' or ')
      const made = flag(`${isTag ? 'has' : 'is'} ${labels}`, someOfSql(field, alias, codes), one)
      return { ...made, isTag, isLabel: true }
    })
  if (hasWord(words, HARMLESS_WORDS)) return []
  // The side that fewer rows have: of `is_frozen` those that are set, of one like `is_live` those that are not.
  const isNo = values.filter((value) => sides.yes.includes(value)).length * 2 >= table.sampled
  const rarer = isNo ? sides.no : sides.yes
  return rarer.length === 0
    ? []
    : [flag(isNo ? 'is not set' : 'is set', someOfSql(field, alias, rarer), UNKNOWN)]
}

const HARMLESS_WORDS = toWordSet(HARMLESS)
const HARMLESS_DATE_WORDS = toWordSet(HARMLESS_DATES)
const HARMLESS_LIST_WORDS = toWordSet(HARMLESS_LISTS)
const HARMLESS_KEY_WORDS = toWordSet(HARMLESS_KEYS)
const IN_USE_WORDS = toWordSet(IN_USE)

const MEDIA = toWordSet(
  'email mail call phone sms text fax letter postal bulk newsletter campaign mailing send whatsapp',
)

const SIDE_CHANNELS = toWordSet('sms text fax letter postal whatsapp push')

/** What ends the use of a row that is none of a person or a company. */
const ENDED = toWordSet(
  'invalid bounced undeliverable bounce hold ended left end expired expires expiry until thru terminated resubscribed lifted',
)

/** What the name of a column says; null if it is no flag. */
function readName(field: CandidateField, context: RowContext): Said | null {
  const { words: own, path, column } = field
  // A key in json is read with the name of its column: `consent.marketing`.
  const before = path.length === 0 ? [] : [column.name, ...path.slice(0, -1)].flatMap(splitIdentifier)
  const words = [...before, ...own]
  const isPlain = (word: string): boolean => FILLERS.has(word) || CHANNELS.has(word)
  const rest = words.filter((word) => !isPlain(word))
  const isMain = context === 'person' || context === 'company'
  const isEnded = holdsDates(field) ? hasWord(rest, ENDED) : rest.every((word) => ENDED.has(word))
  if (!isMain && rest.length > 0 && isEnded) return { meaning: 'gone', isSure: true }
  const said = sayingOf(words)
  if (said === null) return null
  const { meaning, others } = said
  if (isReference(field) && meaning !== 'gone' && meaning !== 'converted') return null
  // No consent to text messages is no objection to be looked up.
  if (meaning === 'consent' && hasWord(words, SIDE_CHANNELS)) return null
  return { meaning, isSure: others.every(isPlain) && isCertain(meaning, words, field, context) }
}

const COMPANIES = toWordSet('company organization account customer')

/** Whether a flag of this meaning leaves out rows of this context for sure. */
function isCertain(
  meaning: Meaning,
  words: readonly string[],
  field: CandidateField,
  context: RowContext,
): boolean {
  if (!concerns(meaning, words, context)) return false
  // Of a company, a closed channel concerns its people; it is not enriched to be written to.
  if (meaning === 'objection') return context !== 'company' || !words.some((word) => MEDIA.has(word))
  // A date of the privacy policy says little; an acceptance of the terms says nothing.
  if (meaning === 'consent') return context === 'person' && !holdsDates(field)
  // The administrator of a company is one of its people.
  if (meaning === 'staff' && hasWord(words, COMPANIES)) return false
  // Without `is`, other types than a boolean are names, roles or counters.
  return (
    meaning !== 'staff' || field.fit.kind === 'boolean' || words.includes('is') || words.includes('internal')
  )
}

const LIST_NAME =
  /\b(?:status|state|stage|situation|lifecycle|type|kind|category|class|group|segment|basis|tag|flag|code|mode|level|consent|gdpr|opt)\b/

/** Whether a column lists states, types or tags, by its name. */
const isList = (field: CandidateField): boolean => isTagList(field) || LIST_NAME.test(field.words.join(' '))

const isState = ({ words, fit, path, codes }: CandidateField): boolean =>
  (fit.kind === 'text' || fit.kind === 'enum' || fit.kind === 'jsonb' || codes !== undefined) &&
  path.length <= 1 &&
  /\b(?:status|state|lifecycle|stage|situation)(?: code| c)?$/.test(words.join(' '))

/** A list with more labels is one of facts. */
const MAX_LABELS = 14

/** The labels of a list that leave a row out, those of one meaning together, and each that is not understood. */
function readLabels(
  field: CandidateField,
  table: FlagTable,
  context: RowContext,
): Array<{ readonly said: Said; readonly codes: readonly string[] }> {
  // Keys in a list are those of labels elsewhere.
  if (isTagList(field) && field.labels?.every((label) => /^(?:\d+|[0-9a-f-]{20,})$/i.test(label))) return []
  const isNumber = field.fit.kind === 'integer' && field.codes === undefined
  const codes = isNumber ? [...new Set(field.values)].toSorted() : listKnownLabels(field)
  if (isNumber && (codes.length > 8 || !isList(field))) return []
  const read = codes.flatMap((code) => {
    const said = readLabel(meaningOf(field, code), field, table, context)
    return said === null || (!said.isSure && codes.length > MAX_LABELS) ? [] : [{ said, code }]
  })
  const groups = Map.groupBy(read, ({ said, code }) => (said.isSure ? said.meaning : code))
  return [...groups.values()].flatMap((some) => {
    const [first] = some
    const isAll = some.length === codes.length && !isMostlyBlank(field, table)
    return isAll || !first ? [] : [{ said: first.said, codes: some.map(({ code }) => code) }]
  })
}

/** What a label says of a row; null if nothing against it. */
function readLabel(
  label: string,
  field: CandidateField,
  { table }: FlagTable,
  context: RowContext,
): Said | null {
  const about = [...splitIdentifier(table?.name ?? ''), ...field.words].join(' ')
  const isRefused = context !== 'company' && IS_CONSENT.test(about) && isRefusal(label)
  const meaning = isRefused ? 'objection' : labelMeaning(label, context)
  const isFact = !isState(field) && hasWord(field.words, HARMLESS_LIST_WORDS)
  if (isFact && !/^(?:objection|gone|test)$/.test(meaning ?? '')) return null
  // A demo is also a step of a sale, and an inactive customer one without orders.
  const isSleeping = context === 'company' && hasWord(splitIdentifier(label), SLEEPING)
  const isStep = isState(field) && (meaning === 'test' || isSleeping)
  if (meaning !== null) return { meaning, isSure: isList(field) && !isStep }
  if (isState(field) && splitIdentifier(label).some((word) => DOUBTFUL.has(word)))
    return { meaning: 'gone', isSure: false }
  const isSentence = label.trim().split(/\s+/).length > 6 || label.length > 40
  return isInUse(label) || isSentence ? null : UNKNOWN
}

const SLEEPING = toWordSet('inactive suspended paused dormant')

const IS_CONSENT = /\b(?:consents?|gdpr|opt|privacy|permissions?|subscriptions?)\b/

/** Whether a label says that a row is used as any other. */
const isInUse = (label: string): boolean =>
  splitIdentifier(label).every((word) => hasWord([word], IN_USE_WORDS))

/** Columns that hold facts. Pure. */
export const roleColumns = ({ person, company }: Readonly<Record<SourceKind, RoleFields>>): string[] =>
  [...person.values(), ...company.values()].map(({ name }) => name)
