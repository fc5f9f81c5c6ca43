import { quoteLiteral } from '../sources/quote.ts'
import { type CandidateField, quoteIfNeeded } from './fields.ts'
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

const isNotNull = ({ column, path }: CandidateField): boolean => column.notNull && path.length === 0

/** SQL: whether a flag lets the row be used; null if the column is no flag that can be read. */
export function keepSql(
  field: CandidateField,
  sql: string,
  meaning: Meaning | null,
  isRare: boolean,
): string | null {
  const notNull = isNotNull(field)
  const { kind } = field.fit
  const isWanted = meaning === 'alive' || meaning === 'consent'
  if (isReference(field)) return kind === 'text' ? `coalesce(${sql}, '') = ''` : `${sql} is null`
  switch (kind) {
    case 'boolean':
      if (!isWanted) return notNull ? `not ${sql}` : `${sql} is not true`
      return notNull ? sql : meaning === 'consent' && !isRare ? `${sql} is true` : `${sql} is not false`
    case 'timestamp':
    case 'timestamptz':
    case 'date':
      if (meaning === 'consent') return isRare ? null : `${sql} is not null`
      return isWanted ? null : `${sql} is null`
    case 'integer':
    case 'numeric': {
      // Other numbers beside 0 are times, counters or kinds of the same flag.
      const isFlag = field.values.every((value) => value === '0' || value === '1' || value === '-1')
      if (!isFlag && (isWanted || !field.values.includes('0'))) return null
      if (!isWanted) return notNull ? `${sql} = 0` : `coalesce(${sql}, 0) = 0`
      return notNull ? `${sql} <> 0` : `coalesce(${sql}, ${meaning === 'consent' && !isRare ? 0 : 1}) <> 0`
    }
    case 'text':
    case 'enum':
    case 'jsonb':
      return textFlagSql(field, sql, isWanted, meaning === 'consent' && !isRare)
    default:
      return null
  }
}

/** Texts that mean yes and no. */
const TEXT_FLAGS = [
  '1 0',
  'y n',
  'yes no',
  'true false',
  't f',
  'on off',
  'j n',
  'ja nein',
  'oui non',
  'o n',
  's n',
  'si no',
  'sì no',
  'sí no',
  'sim não',
  'ja nee',
  'x ',
].map((pair) => pair.split(' '))

const YES = new Set(TEXT_FLAGS.map(([yes = '']) => yes))
const NO = new Set(TEXT_FLAGS.flatMap(([, no = '']) => (no === '' ? [] : [no])))

/** Whether a value says yes, or no, in any of the ways. */
const saysYes = (value: string): boolean => YES.has(value.trim().toLowerCase())
const saysNo = (value: string): boolean => NO.has(value.trim().toLowerCase())

export interface Sides {
  readonly yes: string | null
  readonly no: string | null
}

/** The values of a column that holds yes and no only; null if it holds more. */
export function readSides({ fit, values }: CandidateField): Sides | null {
  if (fit.kind === 'boolean') return { yes: 'true', no: 'false' }
  const found = [...new Set(values)]
  const yes = found.filter(saysYes)
  const no = found.filter(saysNo)
  const isBoth =
    found.length > 0 && yes.length < 2 && no.length < 2 && yes.length + no.length === found.length
  return isBoth ? { yes: yes[0] ?? null, no: no[0] ?? null } : null
}

/** `Y` and `N`, `1` and `0` in a text column, spelled as the sample spells them. */
function textFlagSql(
  field: CandidateField,
  sql: string,
  isWanted: boolean,
  isStrict: boolean,
): string | null {
  const values = new Set(field.values.map((value) => value.trim()))
  const known = [...values].every((value) => TEXT_FLAGS.flat().includes(value.toLowerCase()))
  if (values.size === 0 || values.size > 4 || !known) return null
  const unwanted = new Set<string>()
  for (const value of values)
    for (const [yes = '', no = ''] of TEXT_FLAGS) {
      const [own, opposite] = isWanted ? [no, yes] : [yes, no]
      if (value.toLowerCase() === own) unwanted.add(value)
      else if (value.toLowerCase() === opposite && values.size === 1 && own !== '')
        unwanted.add(value === value.toUpperCase() ? own.toUpperCase() : own)
    }
  if (isStrict && unwanted.size > 0) {
    const wanted = [...values].filter((value) => !unwanted.has(value))
    return wanted.length === 0 ? null : `${sql} in (${wanted.map(quoteLiteral).join(', ')})`
  }
  return unwanted.size === 0 ? null : notInSql(sql, [...unwanted], field)
}

export function notInSql(sql: string, values: readonly string[], field: CandidateField): string {
  const notNull = isNotNull(field)
  const list = values.map(field.fit.kind === 'integer' ? String : quoteLiteral).join(', ')
  if (values.length === 1) return notNull ? `${sql} <> ${list}` : `${sql} is distinct from ${list}`
  return notNull ? `${sql} not in (${list})` : `(${sql} is null or ${sql} not in (${list}))`
}

/** SQL: whether an array has none of the labels. */
export const arraySql = (field: CandidateField, alias: string, labels: readonly string[]): string =>
  `(${alias}.${quoteIfNeeded(field.column.name)} && array[${labels.map(quoteLiteral).join(', ')}]::${field.column.type.name}) is not true`

export const notExists = (
  column: string,
  from: string,
  conditions: readonly string[],
  isSure = true,
  when = `the row is listed in ${column}`,
): RowFlag => ({
  column,
  meaning: isSure ? 'objection' : null,
  when,
  keep: `not exists (select from ${from} where ${conditions.join(' and ')})`,
  isSure,
})

/** The opposite of a condition, in the simplest form. */
export const negate = (condition: string): string => {
  if (/ (?:and|or) /.test(condition)) return `not (${condition})`
  const opposite = [
    [/^not /, ''],
    [/ is not (true|null)$/, ' is $1'],
    [/ is null$/, ' is not null'],
    [/ = 0$/, ' <> 0'],
    [/ <> /, ' = '],
    [/ not in \(/, ' in ('],
    [/ is distinct from /, ' = '],
  ] as const
  const found = opposite.find(([pattern]) => pattern.test(condition))
  return found === undefined ? `not (${condition})` : condition.replace(found[0], found[1])
}

/** Whether most rows do not say: then no answer is no refusal. */
export const isMostlyBlank = ({ values }: CandidateField, { sampled }: FlagTable): boolean =>
  values.length * 2 < sampled
