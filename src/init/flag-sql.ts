import { quoteLiteral } from '../sources/quote.ts'
import { type CandidateField, fieldSql, hasTagSql } from './fields.ts'
import type { IntrospectedTable } from './introspect.ts'
import type { Meaning } from './meanings.ts'

/** A column that may say that a row must not be enriched. */
export interface RowFlag {
  readonly column: string
  readonly meaning: Meaning | null
  /** Which rows it leaves out, in words. */
  readonly when: string
  /** SQL: whether the row may be enriched; never null. */
  readonly keep: string
  /** Whether the name leaves no doubt; otherwise it is a question. */
  readonly isSure: boolean
  /** The answer until a person gives one, where the share of rows does not decide it. */
  readonly isLeftOut?: boolean
  /** Whether it is about a row that this one refers to. */
  readonly isOfOther?: boolean
  /** Whether it is one of the tags or lists that a row may have many of. */
  readonly isTag?: boolean
}

/** Whether a row may have several of its labels. */
export const isTagList = ({ fit, isTags }: CandidateField): boolean => fit.kind === 'array' || isTags === true

export const isDate = (kind: string): boolean => kind === 'date' || kind.startsWith('timestamp')

export const isReference = ({ words, fit }: CandidateField): boolean =>
  ['integer', 'uuid', 'text', 'jsonb'].includes(fit.kind) &&
  /\b(?:id|guid|sfid|into|of|code|number|key|by)(?: c)?$/.test(words.join(' '))

/** A day or a time, also as a text or inside json, where seconds are counted. */
export const holdsDates = ({ fit, values, words }: CandidateField): boolean =>
  isDate(fit.kind) ||
  (/^(?:text|jsonb)$/.test(fit.kind) &&
    values.length > 0 &&
    values.every(
      (value) =>
        /^\d{4}-\d\d-\d\d(?:[T ]|$)/.test(value) ||
        (words.at(-1) === 'at' && /^1\d{9}(?:\d{3})?$/.test(value)),
    ))

/** A meaning whose rows are those to use: what is not so is left out. */
export const isWanted = (meaning: Meaning | null): boolean => meaning === 'alive' || meaning === 'consent'

/** SQL: which rows a flag leaves out, by its name; null if the column is no flag that can be read. */
export function flagSql(
  field: CandidateField,
  alias: string,
  meaning: Meaning | null,
  isRare: boolean,
): string | null {
  const { kind } = field.fit
  const sql = fieldSql(field, alias)
  // Where most rows have an answer, none is no consent.
  const isStrict = meaning === 'consent' && !isRare
  if (holdsDates(field))
    return isStrict ? `${sql} is null` : isWanted(meaning) ? null : isSetSql(field, alias)
  if (isReference(field)) return isSetSql(field, alias)
  const sides = readSides(field)
  // Other numbers beside 0 are times, counters or kinds of the same flag.
  if (sides === null)
    return /^(?:integer|numeric)$/.test(kind) && !isWanted(meaning) && field.values.includes('0')
      ? `${sql} <> 0`
      : null
  const [wanted, unwanted] = isWanted(meaning) ? [sides.yes, sides.no] : [sides.no, sides.yes]
  if (isStrict) return wanted.length === 0 ? null : keepOf(someOfSql(field, alias, wanted))
  // Of what says only one thing so far, any other value will say the opposite.
  return unwanted.length === 0
    ? `not (${someOfSql(field, alias, wanted)})`
    : someOfSql(field, alias, unwanted)
}

/** SQL: whether a date, a key or a text is there. */
export const isSetSql = (field: CandidateField, alias: string): string =>
  field.fit.kind === 'text'
    ? `btrim(${fieldSql(field, alias)}) <> ''`
    : `${fieldSql(field, alias)} is not null`

/** A value of a flag, however it is typed. */
const plainFlag = (value: string): string => value.trim().toLowerCase()

const YES = new Set('1 -1 y yes true t on j ja oui o s si sì sí sim x'.split(' '))
const NO = new Set('0 n no false f off nein non não nee'.split(' '))
const USUAL_YES = 'true t yes y 1 x'.split(' ')
const USUAL_NO = 'false f no n 0'.split(' ')

/** The values that say yes, and no, as the sample spells them; null if the column holds more, or nothing. */
export function readSides(
  field: CandidateField,
): { readonly yes: readonly string[]; readonly no: readonly string[] } | null {
  const { fit, values } = field
  if (fit.kind === 'boolean') return { yes: ['true'], no: ['false'] }
  const found = [...new Set(values)]
  const those = (side: ReadonlySet<string>): string[] => found.filter((value) => side.has(plainFlag(value)))
  const [yes, no] = [those(YES), those(NO)]
  const isFlag = !isTagList(field) && found.length > 0 && yes.length + no.length === found.length
  return isFlag ? { yes, no } : null
}

/** SQL: whether a value is one of the labels. */
export const labelsSql = (sql: string, labels: readonly string[]): string =>
  labels.length === 1
    ? `${sql} = ${quoteLiteral(labels[0] ?? '')}`
    : `${sql} in (${labels.map(quoteLiteral).join(', ')})`

/** SQL: whether a column has one of the values. */
export function someOfSql(field: CandidateField, alias: string, values: readonly string[]): string {
  if (isTagList(field)) return hasTagSql(field, alias, values)
  const sql = fieldSql(field, alias)
  if (field.fit.kind === 'boolean') return `${sql} is ${values[0]}`
  // `TRUE`, `yes` and ` x`, as people and their imports spell it: other rows spell it in other ways.
  const plain = values.map(plainFlag)
  const isSpelled =
    field.fit.kind === 'text' && values.length > 1 && plain.every((one) => YES.has(one) || NO.has(one))
  const usual = plain.some((one) => YES.has(one)) ? USUAL_YES : USUAL_NO
  return isSpelled
    ? labelsSql(`lower(btrim(${sql}))`, [...new Set([...usual, ...plain])])
    : labelsSql(sql, values)
}

/** SQL: whether a row stays that is left out where a condition holds. Never null. */
export function keepOf(out: string): string {
  const [, value, not, is] = /^(.+) is (not )?(null|true|false)$/.exec(out) ?? []
  if (is !== undefined) return `${value} is ${not === undefined ? 'not ' : ''}${is}`
  return / = '[^']*'$/.test(out)
    ? out.replace(/ = ('[^']*')$/, ' is distinct from $1')
    : `(${out}) is not true`
}

/** Whether most rows do not say: then no answer is no refusal. */
export const isMostlyBlank = (
  { values }: CandidateField,
  { sampled }: Pick<IntrospectedTable, 'sampled'>,
): boolean => values.length * 2 < sampled
