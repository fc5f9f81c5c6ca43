import { quoteLiteral } from '../sources/quote.ts'
import { type CandidateField, type SampledRow, fieldSql } from './fields.ts'
import { keepOf, labelsSql, readSides, someOfSql } from './flag-sql.ts'
import type { IntrospectedTable } from './introspect.ts'
import { singularize, splitIdentifier, toWordSet } from './words.ts'
import type { Column } from '../sources/catalogue.ts'

/** Conditions that separate the people of a table from its companies. */
export interface PartyTypeFilter {
  readonly person: (alias: string) => string
  readonly company: (alias: string) => string
  /** Whether a flag tells, `is_company`, and no list of kinds. */
  readonly isFlag?: boolean
  /** Known by which rows have a person's name: the column of the company's name is empty for people. */
  readonly isByNames?: boolean
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
  surveyed: Pick<IntrospectedTable, 'fields' | 'checkLabels' | 'sample'>,
  names: NameFields,
): PartyTypeFilter | null {
  const columns = surveyed.fields.filter((field) => field.path.length === 0)
  for (const field of columns) {
    const said = readSides(field)?.yes ?? []
    const side = said.length === 0 ? null : partyOfFlag(field)
    if (side === null) continue
    const no = (alias: string): string => keepOf(someOfSql(field, alias, said))
    const yes = (alias: string): string => someOfSql(field, alias, said)
    const people = onlyContacts(columns, surveyed.checkLabels)
    const and = (alias: string, condition: string): string => [condition, ...people(alias)].join(' and ')
    return side === 'company'
      ? { company: yes, person: (alias) => and(alias, no(alias)), isFlag: true }
      : { company: no, person: (alias) => and(alias, yes(alias)), isFlag: true }
  }
  for (const field of columns) {
    const labels = listKnownLabels(field, surveyed.checkLabels)
    const isPrivate = (label: string): boolean =>
      /\b(?:private|consumer|household)\b/.test(splitIdentifier(label).join(' '))
    const people = labels.filter((label) => matchesAnyWord(label, PERSON_WORDS))
    // Private customers beside business customers are a reason to leave rows out, and no other kind of row.
    const person = people.find((label) => !isPrivate(label))
    const company = labels.find((label) => matchesAnyWord(label, COMPANY_WORDS))
    if (person !== undefined && company !== undefined && isTypeColumn(field))
      return {
        person: (alias) => `${fieldSql(field, alias)} = ${quoteLiteral(person)}`,
        company: (alias) => `${fieldSql(field, alias)} = ${quoteLiteral(company)}`,
      }
  }
  return partyTypeByNames(surveyed, names)
}

/** Where a table of both keeps the name of a person, and that of a company. */
export interface NameFields {
  readonly person: CandidateField | undefined
  readonly company: CandidateField | undefined
}

/** Rows that a label needs to be judged by. */
const MIN_ROWS = 5

/** A column whose labels tell by the names beside them: `P` with a last name, `F` with a name of a company. */
function partyTypeByNames(
  { fields, sample }: Pick<IntrospectedTable, 'fields' | 'sample'>,
  { person, company }: NameFields,
): PartyTypeFilter | null {
  if (person === undefined || company === undefined || person === company) return null
  const isFilled = (row: SampledRow, { column }: CandidateField): boolean => !isBlankValue(row[column.name])
  for (const field of fields) {
    const labels = [...new Set(field.values)]
    if (field.path.length > 0 || !isTypeColumn(field) || labels.length < 2 || labels.length > 8) continue
    const share = (label: string, of: CandidateField): number => {
      const rows = sample.filter((row) => row[field.column.name] === label)
      return rows.length < MIN_ROWS ? 0.5 : rows.filter((row) => isFilled(row, of)).length / rows.length
    }
    const people = labels.filter((label) => share(label, person) > 0.8 && share(label, company) < 0.3)
    const companies = labels.filter((label) => share(label, company) > 0.8 && share(label, person) < 0.2)
    if (people.length === 0 || companies.length === 0) continue
    return {
      person: (alias) => labelsSql(fieldSql(field, alias), people),
      company: (alias) => labelsSql(fieldSql(field, alias), companies),
      isByNames: true,
    }
  }
  return null
}

const isBlankValue = (value: unknown): boolean =>
  value === null || value === undefined || (typeof value === 'string' && value.trim() === '')

/** `is_company`, `isPerson`. */
function partyOfFlag({ words }: CandidateField): 'person' | 'company' | null {
  const rest = words.filter((word) => word !== 'is').map(singularize)
  // A private entry is not that of a private person.
  if (rest.length !== 1 || !words.includes('is') || rest[0] === 'private') return null
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

/** A label in words: what a comment says of a code, or the label itself. Pure. */
export const meaningOf = ({ codes }: CandidateField, label: string): string => codes?.get(label) ?? label

/** The few values that a column accepts: from its type, a check constraint, or a repetitive sample. Pure. */
export function listKnownLabels(
  field: CandidateField,
  checked: IntrospectedTable['checkLabels'],
): readonly string[] {
  if (field.fit.kind === 'enum') return field.fit.labels
  if (field.codes) return [...field.codes.keys()]
  const allowed = checked[field.name]
  if (allowed) return allowed
  if (field.labels) return field.labels
  const distinct = [...new Set(field.values)].toSorted()
  const isShort = field.fit.kind === 'text' || (field.fit.kind === 'jsonb' && field.path.length > 0)
  return isShort && distinct.length <= 12 && distinct.length < field.values.length ? distinct : []
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
const OTHER_STAMPS = toWordSet(
  'objection objected blocked consent opt next failed error requested started queued scheduled skip until due locked',
)
