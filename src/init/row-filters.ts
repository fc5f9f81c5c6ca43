import type { Column } from '../sources/catalogue.ts'
import { type CandidateField, fieldSql } from './fields.ts'
import { isDate, keepOf, labelsSql, readSides, someOfSql } from './flag-sql.ts'
import type { IntrospectedTable } from './introspect.ts'
import { hasWord, splitIdentifier, toWordSet } from './words.ts'

/** Conditions that separate the people of a table from its companies. */
export interface PartyTypeFilter {
  readonly person: (alias: string) => string
  readonly company: (alias: string) => string
}

const PERSON_WORDS = toWordSet('person people individual human contact natural')
const COMPANY_WORDS = toWordSet(
  'company organization business corporate corporation firm enterprise legal account org',
)
const PRIVATE_WORDS = new Set(['private', 'consumer', 'household'])

/** Labels of rows that are addresses of a partner. */
const PLACE_WORDS = toWordSet('delivery invoice shipping billing ship bill address other')

/** Finds the column that separates people from companies; null if there is none. Pure. */
export function findPartyTypeFilter(
  table: Pick<IntrospectedTable, 'fields' | 'sample'>,
  names: NameFields,
): PartyTypeFilter | null {
  const columns = table.fields.filter((field) => field.path.length === 0)
  const types = columns.filter(
    ({ words }) => words.length <= 2 && /^(?:type|kind|category|class)$/.test(words.at(-1) ?? ''),
  )
  // Besides the flag, a type column may mark rows that are addresses.
  const places = types.find((field) =>
    listKnownLabels(field).some((label) => hasWord(splitIdentifier(label), PLACE_WORDS)),
  )
  const contacts = places ? labelsByWords(places).people : []
  const only = (condition: (alias: string) => string) => (alias: string) =>
    places && contacts.length > 0
      ? `${condition(alias)} and ${labelsSql(fieldSql(places, alias), contacts)}`
      : condition(alias)
  for (const field of columns) {
    // `is_company`, `isPerson`.
    const [first, second = '', ...more] = field.words.toSorted((a) => (a === 'is' ? -1 : 0))
    const yes = readSides(field)?.yes ?? []
    if (first !== 'is' || more.length > 0 || yes.length === 0) continue
    const is = (alias: string): string => someOfSql(field, alias, yes)
    const isNot = (alias: string): string => keepOf(is(alias))
    if (hasWord([second], COMPANY_WORDS)) return { company: is, person: only(isNot) }
    if (hasWord([second], PERSON_WORDS)) return { company: isNot, person: only(is) }
  }
  const read = [
    ...types.map((field) => ({ field, ...labelsByWords(field) })),
    ...types.map((field) => ({ field, ...labelsByNames(field, table, names) })),
  ]
  const found = read.find(({ people, companies }) => people.length > 0 && companies.length > 0)
  return found === undefined
    ? null
    : {
        person: (alias) => labelsSql(fieldSql(found.field, alias), found.people),
        company: (alias) => labelsSql(fieldSql(found.field, alias), found.companies),
      }
}

interface PartyLabels {
  readonly people: readonly string[]
  readonly companies: readonly string[]
}

function labelsByWords(field: CandidateField): PartyLabels {
  // Private customers beside business customers are a reason to leave rows out, and no other kind of row.
  const labels = listKnownLabels(field)
    .map((label) => ({ label, words: splitIdentifier(label) }))
    .filter(({ words }) => !hasWord(words, PRIVATE_WORDS))
  const isPerson = ({ words }: { readonly words: readonly string[] }): boolean => hasWord(words, PERSON_WORDS)
  const others = labels.filter((one) => !isPerson(one) && !hasWord(one.words, PLACE_WORDS))
  const hasCompanies = labels.some(({ words }) => hasWord(words, COMPANY_WORDS))
  return {
    people: labels.filter(isPerson).map(({ label }) => label),
    companies: hasCompanies ? others.map(({ label }) => label) : [],
  }
}

/** Where a table of both keeps the name of a person, and that of a company. */
export interface NameFields {
  readonly person: CandidateField | undefined
  readonly company: CandidateField | undefined
}

/** Rows that a label needs to be judged by. */
const MIN_ROWS = 5

/** A column whose labels tell by the names beside them: `P` with a last name, `F` with a name of a company. */
function labelsByNames(
  { column, values }: CandidateField,
  { sample }: Pick<IntrospectedTable, 'sample'>,
  { person, company }: NameFields,
): PartyLabels {
  const labels = [...new Set(values)]
  if (!person || !company || person === company || labels.length > 8) return { people: [], companies: [] }
  const shareWith = (label: string, name: CandidateField): number => {
    const rows = sample.filter((row) => row[column.name] === label)
    const filled = rows.filter((row) => String(row[name.column.name] ?? '').trim() !== '')
    return rows.length < MIN_ROWS ? 0.5 : filled.length / rows.length
  }
  const having = (name: CandidateField, other: CandidateField): string[] =>
    labels.filter((label) => shareWith(label, name) > 0.8 && shareWith(label, other) < 0.3)
  return { people: having(person, company), companies: having(company, person) }
}

/** A label in words: what a comment says of a code, or the label itself. Pure. */
export const meaningOf = ({ codes }: CandidateField, label: string): string => codes?.get(label) ?? label

/** The few values that a column accepts: from its type, a check constraint, or a repetitive sample. Pure. */
export function listKnownLabels(field: CandidateField): readonly string[] {
  if (field.codes) return [...field.codes.keys()]
  if (field.fit.kind === 'enum') return field.fit.labels
  if (field.labels) return field.labels
  const distinct = [...new Set(field.values)].toSorted()
  const isShort = field.fit.kind === 'text' || (field.fit.kind === 'jsonb' && field.path.length > 0)
  return isShort && distinct.length <= 12 && distinct.length < field.values.length ? distinct : []
}

/** The column that changes with every update of a row, if there is one. Pure. */
export const findChangeColumn = ({ table }: Pick<IntrospectedTable, 'table'>): Column | null =>
  table.columns.find(
    ({ name, type }) =>
      type.fit.kind.startsWith('timestamp') && CHANGED.test(splitIdentifier(name).join(' ')),
  ) ?? null

const CHANGED =
  /^(?:(?:last )?(?:updated|modified|changed)|date (?:modified|updated)|write)(?: (?:at|on|date|time))?$/

/** The timestamp in which the user keeps when a row was enriched, if there is one. Pure. */
export const findFreshnessColumn = ({ fields }: Pick<IntrospectedTable, 'fields'>): string | null =>
  fields.find(
    ({ fit, words, path, column }) =>
      isDate(fit.kind) &&
      hasWord(words, ENRICHED) &&
      !hasWord(words, OTHER_STAMPS) &&
      path.length === 0 &&
      column.canUpdate &&
      !column.isGenerated,
  )?.name ?? null

const ENRICHED = toWordSet('enriched enrichment')
/** Stamps of something else than a finished enrichment. */
const OTHER_STAMPS = toWordSet(
  'objection objected blocked consent opt next failed error requested started queued scheduled skip until due locked',
)
