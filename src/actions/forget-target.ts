import { findKeysByInput } from '../sources/read-row.ts'
import { NO_TEXT } from '../pipeline/erasure.ts'
import type { Source } from '../sources/source-model.ts'
import { isTransient } from '../store/transaction.ts'
import type { RowName } from '../store/erase.ts'
import type { Database } from '../store/open.ts'
import { describeError } from '../util/error-text.ts'
import { escapeRegExp } from '../util/text.ts'
import { domainToUnicode } from 'node:url'
import { normalizeDomain, normalizeEmail, normalizeProfileUrl } from '../domain/identifiers/addresses.ts'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import type { Identifier } from '../domain/subject.ts'

/** The kinds of identifiers that a text is one of. */
export type NamedKind = Exclude<LookupKind, 'name_company'>

/** One person or company to erase. */
export interface ForgetTarget {
  readonly kind: LookupKind
  readonly key: string
  /**
   * A regular expression that matches the identifier anywhere in a text, case-insensitively, but not inside a longer
   * identifier. Valid in Postgres and JavaScript. A name matches nothing: it is no text of its own.
   */
  readonly pattern: string
}

/**
 * Parses an identifier.
 * @returns the reason if it is not valid
 */
export function parseForgetTarget(kind: NamedKind, typed: string): ForgetTarget | string {
  const normalized = NORMALIZE[kind](typed)
  if (normalized === null) return 'it is empty'
  if (!normalized.ok) return normalized.reason
  return toForgetTarget({ kind, key: normalized.key })
}

/** A stored identifier as a target. */
export const toForgetTarget = ({ kind, key }: Identifier): ForgetTarget => ({
  kind,
  key,
  pattern: kind === 'name_company' ? NO_TEXT : PATTERN[kind](key),
})

/** Whether a text is the identifier of a target, however it is spelled. */
function isTarget(text: string, kind: NamedKind, key: string): boolean {
  const normalized = NORMALIZE[kind](text)
  return normalized?.ok === true && normalized.key === key
}

const NORMALIZE = {
  email: normalizeEmail,
  linkedin_url: normalizeProfileUrl,
  domain: normalizeDomain,
} as const

/** Not inside a longer host name. A dot at the end of a sentence is not part of the host. */
const HOST_END = String.raw`(?![a-z0-9-]|\.[a-z0-9])`

const PATTERN: Readonly<Record<NamedKind, (key: string) => string>> = {
  email: (key) => {
    const [local = '', host = ''] = key.split('@')
    return `(?<![a-z0-9._+-])${escapeRegExp(local)}(?:@|%40)${anyOf(host, domainToUnicode(host))}${HOST_END}`
  },
  linkedin_url: (key) => {
    const slug = key.slice(key.lastIndexOf('/') + 1)
    return String.raw`linkedin\.com(?:\\?/)+in(?:\\?/)+${anyOf(slug, encodeURIComponent(slug))}(?![a-z0-9_%-])`
  },
  domain: (key) => String.raw`(?<![a-z0-9@-])(?<!(?<!www)\.)${anyOf(key, domainToUnicode(key))}${HOST_END}`,
}

/** Not more than these: a `u` expression refuses other escapes, such as that of the hyphen of a domain. */
const anyOf = (...texts: readonly string[]): string =>
  `(?:${[...new Set(texts.filter((text) => text !== ''))].map(escapeRegExp).join('|')})`

/** A source whose rows could not be searched. */
export interface UnsearchedSource {
  readonly source: string
  readonly reason: string
}

/** The rows of the user's tables whose present inputs name the subject. */
export async function findRowsByInputs(
  db: Database,
  sources: readonly Source[],
  targets: readonly ForgetTarget[],
): Promise<{ readonly rows: RowName[]; readonly unreadable: UnsearchedSource[] }> {
  const rows: RowName[] = []
  const unreadable: UnsearchedSource[] = []
  for (const source of sources)
    try {
      for (const { kind, key: identifier, pattern } of targets) {
        if (kind === 'name_company') continue
        const isOne = (text: string): boolean => isTarget(text, kind, identifier)
        for (const key of await findKeysByInput(db, source, kind, pattern, isOne))
          rows.push({ source: source.name, key })
      }
    } catch (error) {
      // Of one source: the subject is erased from all others, and the report says what is left to do.
      if (isTransient(error) || !(error instanceof Error && 'code' in error)) throw error
      unreadable.push({ source: source.name, reason: describeError(error) })
    }
  return { rows, unreadable }
}
