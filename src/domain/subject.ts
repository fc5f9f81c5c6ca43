import { normalizeDomain, normalizeEmail, normalizeProfileUrl } from './identifiers/addresses.ts'
import type { LookupKind } from './identifiers/kind.ts'
import { isObject } from './json.ts'
import type { SourceKind } from './mapping.ts'

/** An identifier of a person or a company, normalized. */
export interface Identifier {
  readonly kind: LookupKind
  readonly key: string
}

/** Names of a person's own identifiers in a record. A contact of their company (`company_email`) is another person's. */
const OWN_FIELD =
  /^(?:id|request_?id|identifier|(?:(?:work|personal|private|primary|business|professional|verified)_?)?(?:e_?)?mails?(?:_?address(?:es)?)?|linked_?in(?:_?(?:public_?)?(?:profile|url|link|profile_?url))?|(?:public_?)?profile_?(?:url|link))$/i

/** Objects that wrap a record, or a person's own profiles in it. */
const OWN_OBJECT = /^(?:data|person|record|result|socials?|profiles|links)$/i

/**
 * The subject of a record: the identifiers that it gives as its own. What else it names, such as a manager or the address
 * of the employer, is a mention of another subject.
 */
export function findSubject(kind: SourceKind, record: unknown): Identifier[] {
  if (kind === 'company') return findCompanies(record)
  const found = new Map<string, Identifier>()
  collectOwn(record, found)
  return [...found.values()]
}

function findCompanies(record: unknown): Identifier[] {
  if (!isObject(record)) return []
  const { domain, data, company } = record
  const own = typeof domain === 'string' ? normalizeDomain(domain) : null
  return [
    ...(own?.ok ? [{ kind: 'domain', key: own.key } as const] : []),
    ...[data, company].flatMap(findCompanies),
  ]
}

function collectOwn(record: unknown, found: Map<string, Identifier>): void {
  if (Array.isArray(record)) for (const item of record) collectOwn(item, found)
  else if (isObject(record))
    for (const [field, value] of Object.entries(record)) {
      const name = field.replaceAll('-', '_')
      if (OWN_FIELD.test(name)) collect(value, found)
      else if (OWN_OBJECT.test(name)) collectOwn(value, found)
    }
}

/** Every identifier of a person among the strings of a value, of its subject or of others. */
export function findIdentifiers(value: unknown): Identifier[] {
  const found = new Map<string, Identifier>()
  collect(value, found)
  return [...found.values()]
}

function collect(value: unknown, found: Map<string, Identifier>): void {
  if (typeof value === 'string') {
    const identifier = parseIdentifier(value)
    if (identifier !== null) found.set(identifierText(identifier), identifier)
  } else if (Array.isArray(value)) for (const item of value) collect(item, found)
  else if (isObject(value))
    for (const field of Object.keys(value)) {
      collect(field, found)
      collect(value[field], found)
    }
}

/** Distinguishes identifiers. */
export const identifierText = ({ kind, key }: Identifier): string => `${kind}\n${key}`

function parseIdentifier(text: string): Identifier | null {
  // The shortest address is `a@b.c`.
  if (text.length < 5) return null
  const email = text.includes('@') ? normalizeEmail(text) : null
  if (email?.ok) return { kind: 'email', key: email.key }
  // Each text of each record comes by: most have no dot.
  const profile =
    text.length > 12 && text.includes('.') && /linkedin\.com/i.test(text) ? normalizeProfileUrl(text) : null
  return profile?.ok ? { kind: 'linkedin_url', key: profile.key } : null
}

/** What is left of a text that contained an erased identifier. */
export const ERASED_TEXT = '[erased]'

/** Removes mentions: a string that is an erased identifier becomes null, so that no cell is filled with a placeholder. */
export const redactMentions = (value: unknown, isErased: (identifier: Identifier) => boolean): unknown =>
  redactStrings(value, (text) => {
    const identifier = parseIdentifier(text)
    return identifier !== null && isErased(identifier) ? null : text
  })

/** Replaces strings, names of fields too. Numbers keep their digits. */
export function redactStrings(value: unknown, redact: (text: string) => string | null): unknown {
  if (typeof value === 'string') return redact(value)
  if (Array.isArray(value)) return value.map((item: unknown) => redactStrings(item, redact))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([field, item]) => [redact(field) ?? ERASED_TEXT, redactStrings(item, redact)]),
  )
}
