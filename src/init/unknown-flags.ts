import type { ClassifiedTable } from './classify.ts'
import { type CandidateField, fieldSql } from './fields.ts'
import {
  type FlagTable,
  type RowFlag,
  isUnsetSql,
  isDate,
  isReference,
  isWanted,
  notInSql,
  readSides,
} from './flag-sql.ts'
import { isState, isTypeOrTag, sureMeaning, withoutSql } from './label-flags.ts'
import { DOUBTFUL, FILLERS, type Meaning, labelMeaning, sayingOf } from './meanings.ts'
import { listKnownLabels, meaningOf } from './row-filters.ts'
import { HARMLESS, HARMLESS_DATES, HARMLESS_KEYS, HARMLESS_LISTS, IN_USE } from './vocabulary.ts'
import { singularize, splitIdentifier, toWordSet } from './words.ts'

/**
 * What divides the rows of a table and is not understood: flags, dates that few rows have, labels of short lists and tags. Each may
 * be a reason to leave rows out, so each becomes a choice of a question. Pure.
 * @param known columns that are understood
 */
export function unknownFlags(
  table: FlagTable & Pick<ClassifiedTable, 'references'>,
  alias: string,
  context: 'person' | 'company',
  known: ReadonlySet<string>,
): RowFlag[] {
  return table.fields.flatMap((field) => {
    const { fit, path, column, name } = field
    const isList = (isState(field) || isTypeOrTag(field)) && !isRegion(field, table)
    const isPlace = path.length === 0 || (path.length === 1 && fit.kind === 'jsonb')
    if (!isPlace || !column.canSelect || ((known.has(name) || known.has(column.name)) && !isList)) return []
    const sql = fieldSql(field, alias)
    if (isDate(fit.kind)) return isHarmlessDate(field, table.sampled) ? [] : [sparseFlag(field, sql)]
    if (table.references.has(name) || (isReference(field) && !isListName(field.words)))
      return sparseKey(field, sql, table.sampled)
    if (readSides(field) !== null)
      return known.has(name) || isHarmless(field.words, HARMLESS_WORDS)
        ? []
        : rarerSide(field, sql, table.sampled)
    return unknownLabels(field, table, context).map((label) => labelFlag(field, alias, label, context))
  })
}

/** The state of an address, and not that of a row. */
const isRegion = ({ words }: CandidateField, { fields }: FlagTable): boolean =>
  words.at(-1) === 'state' &&
  fields.some((one) => one.words.includes('city') || one.words.includes('postcode'))

/** A name that says that it is about something else. */
const isHarmless = (words: readonly string[], harmless: ReadonlySet<string>): boolean =>
  words.some((word) => harmless.has(word) || harmless.has(singularize(word)))

const HARMLESS_WORDS = toWordSet(HARMLESS)
const HARMLESS_DATE_WORDS = toWordSet(HARMLESS_DATES)
const HARMLESS_LIST_WORDS = toWordSet(HARMLESS_LISTS)
const HARMLESS_KEY_WORDS = toWordSet(HARMLESS_KEYS)
const IN_USE_WORDS = toWordSet(IN_USE)

/** A date that most rows have is that of something every row goes through. */
const isHarmlessDate = ({ words, values }: CandidateField, sampled: number): boolean =>
  values.length === 0 ||
  values.length * 2 > sampled ||
  isHarmless(words, HARMLESS_DATE_WORDS) ||
  words.every((word) => FILLERS.has(word) || word === 'consent')

const unknown = (column: string, when: string, keep: string, meaning: Meaning | null = null): RowFlag => ({
  column,
  meaning,
  when,
  keep,
  isSure: false,
})

const sparseFlag = (field: CandidateField, sql: string): RowFlag =>
  unknown(field.name, `${field.name} is set`, isUnsetSql(field, sql))

/** A key that few rows have: of the row that took its place, perhaps. */
const sparseKey = (field: CandidateField, sql: string, sampled: number): RowFlag[] =>
  field.column.notNull || field.values.length * 2 > sampled || isHarmless(field.words, HARMLESS_KEY_WORDS)
    ? []
    : [sparseFlag(field, sql)]

/** The side of a flag that fewer rows have: of `is_frozen` those that are set, of one like `is_live` those that are not. */
function rarerSide(field: CandidateField, sql: string, sampled: number): RowFlag[] {
  const { name, values } = field
  const { yes = [], no = [] } = readSides(field) ?? {}
  const count = (side: readonly string[]): number => values.filter((value) => side.includes(value)).length
  const isRarelyNo = no.length > 0 && count(no) * 2 < sampled && count(yes) * 2 >= sampled
  const isNo = isWanted(sayingOf(field.words)?.meaning ?? null) || isRarelyNo
  const side = isNo ? no : yes
  return side.length === 0
    ? []
    : [unknown(name, `${name} is ${isNo ? 'not ' : ''}set`, notInSql(sql, side, field))]
}

function labelFlag(
  field: CandidateField,
  alias: string,
  code: string,
  context: 'person' | 'company',
): RowFlag {
  const label = meaningOf(field, code)
  const isDoubtful = isState(field) && splitIdentifier(label).some((word) => DOUBTFUL.has(word))
  const meaning = isDoubtful ? 'gone' : labelMeaning(label, context)
  const isTag = field.fit.kind === 'array'
  const when = `${field.name} ${isTag ? 'has' : 'is'} ${label}`
  return { ...unknown(field.name, when, withoutSql(field, alias, [code]), meaning), ...(isTag && { isTag }) }
}

/** A list with more labels is one of facts. */
const MAX_LABELS = 14

/** The labels of a field that may say something against a row. */
function unknownLabels(
  field: CandidateField,
  table: FlagTable,
  context: 'person' | 'company',
): readonly string[] {
  const { words, fit, values } = field
  const isFact = !isState(field) && isHarmless(words, HARMLESS_LIST_WORDS)
  const isNumber = fit.kind === 'integer'
  const distinct = [...new Set(values)].toSorted()
  if (isNumber && (distinct.length > 8 || !isListName(words))) return []
  const labels = isNumber ? distinct : listKnownLabels(field, table.checkLabels)
  if (labels.length > MAX_LABELS) return []
  return labels.filter((code) => {
    const label = meaningOf(field, code)
    return (
      (!isFact || AGAINST.has(labelMeaning(label, context) ?? '')) &&
      !isInUse(label) &&
      !isSentence(label) &&
      sureMeaning(code, field, context) === null
    )
  })
}

/** What a label says against a row, whatever the list is about. */
const AGAINST: ReadonlySet<string> = new Set(['objection', 'gone', 'test'])

/** Whether a number or a key is one of a list, by its name. */
const isListName = (words: readonly string[]): boolean =>
  /\b(?:status|state|stage|type|kind|category|class|group|lifecycle|flag|code|mode|level)\b/.test(
    words.join(' '),
  )

const isSentence = (label: string): boolean => label.trim().split(/\s+/).length > 6 || label.length > 40

/** Whether a label says that a row is used as any other. */
export const isInUse = (label: string): boolean => {
  const words = splitIdentifier(label)
  return words.every((word) => IN_USE_WORDS.has(word) || IN_USE_WORDS.has(singularize(word)))
}

/** Columns that hold facts. Pure. */
export const roleColumns = ({ person, company }: Pick<ClassifiedTable, 'person' | 'company'>): string[] =>
  [...person.values(), ...company.values()].map(({ name }) => name)
