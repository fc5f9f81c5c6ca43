import { quoteIfNeeded, quoteLiteral } from '../sources/quote.ts'
import type { CandidateField } from './fields.ts'
import type { IntrospectedTable } from './introspect.ts'
import type { Meaning } from './meanings.ts'

/** A column that may say that a row must not be enriched. */
export interface RowFlag {
  readonly column: string
  readonly meaning: Meaning | null
  /** Which rows it leaves out, in words. */
  readonly when: string
  /** SQL: whether the row may be enriched. */
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

export type FlagTable = Pick<IntrospectedTable, 'fields' | 'checkLabels' | 'sampled'>

export const isDate = (kind: string): boolean => kind === 'date' || kind.startsWith('timestamp')

export const isReference = ({ words, fit }: CandidateField): boolean =>
  ['integer', 'uuid', 'text'].includes(fit.kind) &&
  /^(?:id|guid|sfid|into|of|code|number|by)$/.test(words.at(-1) ?? '')

/** A meaning whose rows are those to use: what is not so is left out. */
export const isWanted = (meaning: Meaning | null): boolean => meaning === 'alive' || meaning === 'consent'

/** SQL: whether a flag lets the row be used; null if the column is no flag that can be read. */
export function keepSql(
  field: CandidateField,
  sql: string,
  meaning: Meaning | null,
  isRare: boolean,
): string | null {
  const { kind } = field.fit
  // Where most rows have an answer, none is no consent.
  const isStrict = meaning === 'consent' && !isRare
  if (isDate(kind) && meaning === 'consent') return isRare ? null : `${sql} is not null`
  if (isDate(kind)) return isWanted(meaning) ? null : isUnsetSql(field, sql)
  if (isReference(field)) return isUnsetSql(field, sql)
  if (kind === 'integer' || kind === 'numeric') {
    // Other numbers beside 0 are times, counters or kinds of the same flag.
    const isFlag = field.values.every((value) => NUMBERS.has(value))
    if (!isFlag && (isWanted(meaning) || !field.values.includes('0'))) return null
    return isWanted(meaning) ? `coalesce(${sql}, ${isStrict ? 0 : 1}) <> 0` : `coalesce(${sql}, 0) = 0`
  }
  const sides = readSides(field)
  if (sides === null) return null
  const [wanted, unwanted] = isWanted(meaning) ? [sides.yes, sides.no] : [sides.no, sides.yes]
  if (isStrict) return wanted.length === 0 ? null : negate(notInSql(sql, wanted, field))
  return unwanted.length === 0 ? null : notInSql(sql, unwanted, field)
}

/** SQL: whether a date, a key or a text is absent. */
export const isUnsetSql = ({ fit }: CandidateField, sql: string): string =>
  fit.kind === 'text' ? `coalesce(${sql}, '') = ''` : `${sql} is null`

const NUMBERS = new Set(['0', '1', '-1'])

/** Texts that mean yes and no. */
const YES_AND_NO = new Map(
  `1 0|-1 0|y n|yes no|true false|t f|on off|j n|ja nein|oui non|o n|s n|si no|sì no|sí no|sim não|ja nee|x `
    .split('|')
    .map((pair) => pair.split(' ') as [string, string]),
)
const NO = new Set(YES_AND_NO.values())

/** The values that say yes, and no, as the sample spells them. */
interface Sides {
  readonly yes: readonly string[]
  readonly no: readonly string[]
}

/** The values of a column that holds yes and no only; null if it holds more. */
export function readSides({ fit, values }: CandidateField): Sides | null {
  if (fit.kind === 'boolean') return { yes: ['true'], no: ['false'] }
  if (fit.kind === 'array') return null
  const found = [...new Set(values.map((value) => value.trim()))]
  const yes = found.filter((value) => YES_AND_NO.has(value.toLowerCase()))
  const no = found.filter((value) => NO.has(value.toLowerCase()))
  if (found.length === 0 || yes.length > 2 || no.length > 2 || yes.length + no.length < found.length)
    return null
  // Of what only says no so far: what will say yes.
  const opposites = [...YES_AND_NO].filter(([, one]) => one !== '' && no[0]?.toLowerCase() === one)
  const spelled = (said: string): string => (no[0] === no[0]?.toUpperCase() ? said.toUpperCase() : said)
  return { yes: yes.length > 0 ? yes : opposites.map(([said]) => spelled(said)), no }
}

export function notInSql(sql: string, values: readonly string[], { fit }: CandidateField): string {
  if (fit.kind === 'boolean') return `${sql} is not ${values[0]}`
  const list = values.map(fit.kind === 'integer' ? String : quoteLiteral).join(', ')
  return values.length === 1 ? `${sql} is distinct from ${list}` : `(${sql} in (${list})) is not true`
}

/** SQL: whether an array has none of the labels. */
export const arraySql = ({ column }: CandidateField, alias: string, labels: readonly string[]): string =>
  `(${alias}.${quoteIfNeeded(column.name)} && array[${labels.map(quoteLiteral).join(', ')}]::${column.type.name}) is not true`

/** SQL: the opposite of one of the conditions above. */
export const negate = (condition: string): string => {
  const opposite = [
    [/^not exists \(/, 'exists ('],
    [/ is not (true|false|null)$/, ' is $1'],
    [/ is null$/, ' is not null'],
    [/ = (0|'')$/, ' <> $1'],
    [/ <> 0$/, ' = 0'],
    [/ is distinct from /, ' = '],
  ] as const
  const found = opposite.find(([pattern]) => pattern.test(condition))
  return found === undefined ? `not (${condition})` : condition.replace(found[0], found[1])
}

/** Whether most rows do not say: then no answer is no refusal. */
export const isMostlyBlank = ({ values }: CandidateField, { sampled }: FlagTable): boolean =>
  values.length * 2 < sampled

/** Rows of other tables against a row; the row is left out if there is one. */
export const notExists = (
  column: string,
  from: string,
  conditions: readonly string[],
  when: string,
): RowFlag => ({
  column,
  meaning: 'objection',
  when,
  keep: `not exists (select from ${from} where ${conditions.join(' and ')})`,
  isSure: true,
})
