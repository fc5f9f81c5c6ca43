import { quoteLiteral } from '../sources/quote.ts'
import { type CandidateField, fieldSql } from './fields.ts'
import type { IntrospectedTable } from './introspect.ts'
import { singularize, splitIdentifier, toWordSet } from './identifier-words.ts'
import type { Column } from '../sources/catalogue.ts'

/** Conditions that separate the people of a table from its companies. */
export interface PartyTypeFilter {
  readonly person: (alias: string) => string
  readonly company: (alias: string) => string
}

const PERSON_WORDS = toWordSet('person people individual human contact private natural')
const COMPANY_WORDS = toWordSet(
  'company organization business corporate corporation firm enterprise legal account org',
)
const TYPE_WORDS = toWordSet('type kind category class')
/** Labels for address rows in a table of partners. */
const PLACE_WORDS = toWordSet('delivery invoice shipping billing ship bill address other')

/** Finds the column that separates people from companies; null if there is none. Pure. */
export function findPartyTypeFilter(
  surveyed: Pick<IntrospectedTable, 'fields' | 'checkLabels'>,
): PartyTypeFilter | null {
  const columns = surveyed.fields.filter((field) => field.path.length === 0)
  for (const field of columns) {
    const side = field.fit.kind === 'boolean' ? partyOfFlag(field) : null
    if (side === null) continue
    const yes = (alias: string): string => fieldSql(field, alias)
    const no = (alias: string): string =>
      field.column.notNull ? `not ${yes(alias)}` : `${yes(alias)} is not true`
    const people = onlyContacts(columns, surveyed.checkLabels)
    const and = (alias: string, condition: string): string => [condition, ...people(alias)].join(' and ')
    return side === 'company'
      ? { company: yes, person: (alias) => and(alias, no(alias)) }
      : { company: no, person: (alias) => and(alias, yes(alias)) }
  }
  for (const field of columns) {
    const labels = listKnownLabels(field, surveyed.checkLabels)
    const person = labels.find((label) => matchesAnyWord(label, PERSON_WORDS))
    const company = labels.find((label) => matchesAnyWord(label, COMPANY_WORDS))
    if (person !== undefined && company !== undefined && isTypeColumn(field))
      return {
        person: (alias) => `${fieldSql(field, alias)} = ${quoteLiteral(person)}`,
        company: (alias) => `${fieldSql(field, alias)} = ${quoteLiteral(company)}`,
      }
  }
  return null
}

/** `is_company`, `isPerson`. */
function partyOfFlag({ words }: CandidateField): 'person' | 'company' | null {
  const rest = words.filter((word) => word !== 'is').map(singularize)
  if (rest.length !== 1 || !words.includes('is')) return null
  if (COMPANY_WORDS.has(rest[0] ?? '')) return 'company'
  return PERSON_WORDS.has(rest[0] ?? '') ? 'person' : null
}

/** Besides the flag, a type column may mark rows that are addresses. */
function onlyContacts(
  columns: readonly CandidateField[],
  checked: IntrospectedTable['checkLabels'],
): (alias: string) => string[] {
  for (const field of columns) {
    if (!isTypeColumn(field)) continue
    const labels = listKnownLabels(field, checked)
    const person = labels.find((label) => matchesAnyWord(label, PERSON_WORDS))
    if (person !== undefined && labels.some((label) => matchesAnyWord(label, PLACE_WORDS)))
      return (alias) => [`${fieldSql(field, alias)} = ${quoteLiteral(person)}`]
  }
  return () => []
}

const isTypeColumn = ({ words }: CandidateField): boolean =>
  TYPE_WORDS.has(words.at(-1) ?? '') && words.length <= 2

/** The few values that a column accepts: from its type, a check constraint, or a repetitive sample. Pure. */
export function listKnownLabels(
  field: CandidateField,
  checked: IntrospectedTable['checkLabels'],
): readonly string[] {
  if (field.fit.kind === 'enum') return field.fit.labels
  if (field.fit.kind !== 'text') return []
  const allowed = checked[field.name]
  if (allowed) return allowed
  const distinct = [...new Set(field.values)]
  return distinct.length <= 12 && distinct.length < field.values.length ? (field.labels ?? distinct) : []
}

const matchesAnyWord = (label: string, words: ReadonlySet<string>): boolean =>
  splitIdentifier(label).some((word) => words.has(singularize(word)) || words.has(word))

/** The column that changes with every update of a row, if there is one. Pure. */
export function findChangeColumn({ table }: Pick<IntrospectedTable, 'table'>): Column | null {
  const found = table.columns.find(({ name, type }) => {
    const { kind } = type.fit
    return (
      (kind === 'timestamptz' || kind === 'timestamp') &&
      CHANGE_COLUMN_NAMES.has(splitIdentifier(name).join(' '))
    )
  })
  return found ?? null
}

const CHANGE_COLUMN_NAMES = new Set(
  [
    'updated',
    'modified',
    'changed',
    'last updated',
    'last modified',
    'last changed',
    'date modified',
    'date updated',
    'write',
  ].flatMap((words) => [words, `${words} at`, `${words} on`, `${words} date`, `${words} time`]),
)

/** The timestamp in which the user keeps when a row was enriched, if there is one. Pure. */
export function findFreshnessColumn({ fields }: Pick<IntrospectedTable, 'fields'>): string | null {
  const found = fields.find(({ fit, words, path, column }) => {
    const isTime = fit.kind === 'timestamptz' || fit.kind === 'timestamp' || fit.kind === 'date'
    const isStamp =
      words.some((word) => FRESHNESS_WORDS.has(word)) && !words.some((word) => OTHER_STAMPS.has(word))
    return isTime && isStamp && path.length === 0 && column.canUpdate && !column.isGenerated
  })
  return found?.name ?? null
}

const FRESHNESS_WORDS = toWordSet('enriched enrichment')
/** Stamps of something else than a finished enrichment. */
const OTHER_STAMPS = toWordSet('next failed error requested started queued scheduled skip until due locked')
