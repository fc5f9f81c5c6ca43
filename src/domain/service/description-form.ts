import { hash } from 'node:crypto'
import { isObject } from '../json.ts'
import { BUILT_IN_SERVICE } from './built-in.ts'
import type { Service } from './service.ts'

/** A digest of each part of a description that shapes what is stored of an answer, by its place: `person.read`. */
export type DescriptionForm = Readonly<Record<string, string>>

/** A form, and since when records are stored in it: ISO 8601. */
export interface StoredForm {
  readonly since: string
  readonly parts: DescriptionForm
}

/** What is requested, how answers are read, and what they cost. Address, key and limits shape no record. */
const ENDPOINTS = ['person', 'company', 'bulk', 'companyBulk', 'poll', 'webhook', 'fields'] as const
const WHOLE = ['statuses', 'credits'] as const
const UNRELATED: ReadonlySet<string> = new Set([
  'bulk.size',
  'bulk.inputs',
  'companyBulk.size',
  'poll.after',
  'webhook.signature',
])

/**
 * The form of a service's description. Functions are compared by their text, without its white space: what they call is not
 * seen. The built-in description has none, because its text is that of a version of the program. Pure.
 */
export function toDescriptionForm(service: Service): DescriptionForm {
  if (service === BUILT_IN_SERVICE) return {}
  const { definition } = service
  const parts = [
    ...ENDPOINTS.flatMap((name) =>
      Object.entries(definition[name] ?? {}).map(
        ([part, value]) => [`${name}.${part}`, value as unknown] as const,
      ),
    ),
    ...WHOLE.map((name) => [name, definition[name]] as const),
  ]
  return Object.fromEntries(
    parts.flatMap(([place, value]) =>
      value === undefined || UNRELATED.has(place)
        ? []
        : [[place, hash('sha256', toText(value)).slice(0, 12)]],
    ),
  )
}

/** The places where two forms differ. Pure. */
export const diffForms = (before: DescriptionForm, after: DescriptionForm): string[] =>
  [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (place) => before[place] !== after[place],
  )

/** The same text for the same value, whatever the order of its keys. */
function toText(value: unknown): string {
  if (typeof value === 'function') return String(value).replaceAll(/\s+/g, '')
  if (Array.isArray(value)) return `[${value.map(toText).join()}]`
  if (!isObject(value)) return JSON.stringify(value) ?? String(value)
  const keys = Object.keys(value).toSorted()
  return `{${keys.map((key) => `${JSON.stringify(key)}:${toText(value[key])}`).join()}}`
}
