import { domainToUnicode } from 'node:url'
import { normalizeDomain } from '../../domain/identifiers/domain.ts'
import { normalizeEmail } from '../../domain/identifiers/email.ts'
import type { LookupKind } from '../../domain/identifiers/kind.ts'
import { normalizeProfileUrl } from '../../domain/identifiers/profile-url.ts'

/** One person or company to be forgotten. */
export interface Target {
  readonly kind: Exclude<LookupKind, 'name_company'>
  readonly key: string
  /**
   * A regular expression that finds the identifier in any text, in any case, and no longer one that contains it.
   * Postgres and JavaScript read it alike.
   */
  readonly pattern: string
}

/** Reads what was typed. @returns the reason in words where it is no identifier */
export function readTarget(kind: Target['kind'], typed: string): Target | string {
  const normalized = NORMALIZE[kind](typed)
  if (normalized === null) return 'nothing in it'
  if (!normalized.ok) return normalized.reason
  return { kind, key: normalized.key, pattern: PATTERN[kind](normalized.key) }
}

const NORMALIZE = {
  email: normalizeEmail,
  linkedin_url: normalizeProfileUrl,
  domain: normalizeDomain,
} as const

/** Neither within a longer host nor before a dot that goes on; one that ends a sentence is no part of it. */
const HOST_ENDS = String.raw`(?![a-z0-9-]|\.[a-z0-9])`

const PATTERN: Readonly<Record<Target['kind'], (key: string) => string>> = {
  email: (key) => {
    const [local = '', host = ''] = key.split('@')
    return `(?<![a-z0-9._+-])${escape(local)}(?:@|%40)${either(host, domainToUnicode(host))}${HOST_ENDS}`
  },
  linkedin_url: (key) => {
    const slug = key.slice(key.lastIndexOf('/') + 1)
    return String.raw`linkedin\.com(?:\\?/)+in(?:\\?/)+${either(slug, encodeURIComponent(slug))}(?![a-z0-9_%-])`
  },
  domain: (key) => String.raw`(?<![a-z0-9@-])(?<!(?<!www)\.)${either(key, domainToUnicode(key))}${HOST_ENDS}`,
}

const escape = (text: string): string => text.replaceAll(/[^\p{L}\p{N}_]/gu, (sign) => `\\${sign}`)

const either = (...texts: readonly string[]): string =>
  `(?:${[...new Set(texts.filter((text) => text !== ''))].map(escape).join('|')})`
