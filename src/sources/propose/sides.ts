import { quoteLiteral } from '../quote.ts'
import { readField, type Field } from './field.ts'
import type { Surveyed } from './survey.ts'
import { singular, wordsOf } from './words.ts'

/** Conditions that tell the people of a table from its companies. */
export interface Sides {
  readonly person: (alias: string) => string
  readonly company: (alias: string) => string
}

const PERSON = new Set('person people individual human contact private natural'.split(' '))
const COMPANY = new Set(
  'company organization business corporate corporation firm enterprise legal account org'.split(' '),
)
const KIND = new Set('type kind category class'.split(' '))
/** What else rows of a table of partners may be: places where people want their goods and invoices. */
const PLACE = new Set('delivery invoice shipping billing ship bill address other'.split(' '))

/** The column that tells people from companies in a table that holds both; null where there is none. Pure. */
export function sidesOf(surveyed: Pick<Surveyed, 'fields' | 'checked'>): Sides | null {
  const columns = surveyed.fields.filter((field) => field.path.length === 0)
  for (const field of columns) {
    const side = field.fit.kind === 'boolean' ? sideOfFlag(field) : null
    if (side === null) continue
    const yes = (alias: string): string => readField(field, alias)
    const no = (alias: string): string =>
      field.column.notNull ? `not ${yes(alias)}` : `${yes(alias)} is not true`
    const people = contactsOnly(columns, surveyed.checked)
    const and = (alias: string, condition: string): string => [condition, ...people(alias)].join(' and ')
    return side === 'company'
      ? { company: yes, person: (alias) => and(alias, no(alias)) }
      : { company: no, person: (alias) => and(alias, yes(alias)) }
  }
  for (const field of columns) {
    const labels = labelsOf(field, surveyed.checked)
    const person = labels.find((label) => isOneOf(label, PERSON))
    const company = labels.find((label) => isOneOf(label, COMPANY))
    if (person !== undefined && company !== undefined && isKindColumn(field))
      return {
        person: (alias) => `${readField(field, alias)} = ${quoteLiteral(person)}`,
        company: (alias) => `${readField(field, alias)} = ${quoteLiteral(company)}`,
      }
  }
  return null
}

/** `is_company`, `isPerson`. */
function sideOfFlag({ words }: Field): 'person' | 'company' | null {
  const rest = words.filter((word) => word !== 'is').map(singular)
  if (rest.length !== 1 || !words.includes('is')) return null
  if (COMPANY.has(rest[0] ?? '')) return 'company'
  return PERSON.has(rest[0] ?? '') ? 'person' : null
}

/** Beside a flag, a column of types may still set places apart from people. */
function contactsOnly(columns: readonly Field[], checked: Surveyed['checked']): (alias: string) => string[] {
  for (const field of columns) {
    if (!isKindColumn(field)) continue
    const labels = labelsOf(field, checked)
    const person = labels.find((label) => isOneOf(label, PERSON))
    if (person !== undefined && labels.some((label) => isOneOf(label, PLACE)))
      return (alias) => [`${readField(field, alias)} = ${quoteLiteral(person)}`]
  }
  return () => []
}

const isKindColumn = ({ words }: Field): boolean => KIND.has(words.at(-1) ?? '') && words.length <= 2

/** The few values that a column knows: of its type, of a check, or of the sample where it repeats itself. Pure. */
export function labelsOf(field: Field, checked: Surveyed['checked']): readonly string[] {
  if (field.fit.kind === 'enum') return field.fit.labels
  if (field.fit.kind !== 'text') return []
  const allowed = checked[field.name]
  if (allowed) return allowed
  const distinct = [...new Set(field.values)]
  return distinct.length <= 12 && distinct.length < field.values.length ? distinct : []
}

const isOneOf = (label: string, words: ReadonlySet<string>): boolean =>
  wordsOf(label).some((word) => words.has(singular(word)) || words.has(word))
