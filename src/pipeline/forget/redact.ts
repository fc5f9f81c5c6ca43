import { normalizeEmail } from '../../domain/identifiers/email.ts'
import type { LookupKind } from '../../domain/identifiers/kind.ts'
import { normalizeProfileUrl } from '../../domain/identifiers/profile-url.ts'
import { isObject, parseKeepingNumbers } from '../../domain/json.ts'

export interface Identifier {
  readonly kind: LookupKind
  readonly key: string
}

const RESULTS = 'results'

/**
 * A delivery's body without some of its results, by their index: their places stay, because the order of results can
 * say whose they are. Null where the body has no such results. What is left is kept to the last digit.
 */
export function withoutResults(body: string, erased: ReadonlySet<number>): string | null {
  if (erased.size === 0) return null
  const event = parseKeepingNumbers(body.charCodeAt(0) === 0xfeff ? body.slice(1) : body)
  if (!isObject(event)) return null
  const results = event[RESULTS]
  if (Array.isArray(results))
    return JSON.stringify({ ...event, results: results.map((item, n) => (erased.has(n) ? null : item)) })
  if (!isObject(results)) return null
  // A map from identifier to result: the identifier may be the address.
  const kept = Object.entries(results).map(([id, item], n) =>
    erased.has(n) ? [`erased:${n}`, null] : [id, item],
  )
  return JSON.stringify({ ...event, results: Object.fromEntries(kept) })
}

/** Every identifier of a person among the strings of a value: addresses and profiles. */
export function identifiersIn(value: unknown): Identifier[] {
  const found = new Map<string, Identifier>()
  collect(value, (text) => {
    for (const one of identifiersOf(text)) found.set(`${one.kind}\n${one.key}`, one)
  })
  return [...found.values()]
}

function identifiersOf(text: string): Identifier[] {
  const email = text.includes('@') ? normalizeEmail(text) : null
  if (email?.ok) return [{ kind: 'email', key: email.key }]
  const profile = /linkedin\.com/i.test(text) ? normalizeProfileUrl(text) : null
  return profile?.ok ? [{ kind: 'linkedin_url', key: profile.key }] : []
}

function collect(value: unknown, tell: (text: string) => void): void {
  if (typeof value === 'string') tell(value)
  else if (Array.isArray(value)) for (const item of value) collect(item, tell)
  else if (isObject(value))
    for (const [field, item] of Object.entries(value)) {
      tell(field)
      collect(item, tell)
    }
}
