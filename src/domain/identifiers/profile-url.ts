import type { Normalized } from './kind.ts'
import { trim } from './space.ts'
import { splitUrl, withoutPort } from './url.ts'

const longestUrl = 4096
/** LinkedIn allows 100 for a name one chooses; older ones with characters beyond ASCII are longer. */
const longestSlug = 200

/** Never in a slug: white space, control characters, half a surrogate pair, and what delimits URLs and lists. */
const forbidden = /[\s\p{Cc}\p{Cs}%/\\?#<>",;:@]/u

/** Identifiers that LinkedIn makes itself are base64, so case matters in them; chosen names ignore it. */
const madeByLinkedIn = /^ACoA[\w-]{20,}$/

const companyPages: ReadonlySet<string> = new Set(['company', 'school', 'showcase', 'organization'])

const refuse = (reason: string) => ({ ok: false, reason, input: 'linkedin_url' }) as const

/**
 * A personal profile, `linkedin.com/in/<slug>`, out of any scheme, host prefix (`no.`, `www.`, `m.`), case,
 * port, query or sub-page. Compared by the slug, decoded and in lower case; asked by the canonical URL.
 */
export function normalizeProfileUrl(raw: string | null): Normalized<{ linkedin_url: string }> {
  const text = trim(raw ?? '')
  if (text === '') return null
  if (text.length > longestUrl) return refuse('over 4,096 characters')
  if (/\s/.test(text)) return refuse('white space inside')
  const { hasScheme, authority, path } = splitUrl(text)
  const host = withoutPort(authority).toLowerCase()
  if (!isLinkedIn(host)) return refuse(otherThanLinkedIn(hasScheme, host))

  const [section, encoded] = path.split('/').filter((segment) => segment !== '')
  if (section === undefined) return refuse('no profile in the address')
  if (companyPages.has(section.toLowerCase())) return refuse('company page')
  if (section.toLowerCase() !== 'in') return refuse('not a profile page')
  if (encoded === undefined) return refuse('no profile in the address')

  const typed = decode(encoded)
  if (typed === null) return refuse('broken percent-encoding')
  // Composed before it is checked: NFC turns U+037E into a semicolon.
  const slug = trim(typed.normalize('NFC'))
  if (forbidden.test(slug)) return refuse('profile name with a character that is not allowed')
  if (!/[\p{L}\p{N}]/u.test(slug)) return refuse('no profile in the address')
  if (slug.length > longestSlug) return refuse('profile name over 200 characters')
  const folded = slug.toLowerCase().normalize('NFC')
  const asked = encodeURIComponent(madeByLinkedIn.test(slug) ? slug : folded)
  return {
    ok: true,
    key: `linkedin.com/in/${folded}`,
    input: { linkedin_url: `https://www.linkedin.com/in/${asked}` },
  }
}

function isLinkedIn(host: string): boolean {
  return host === 'linkedin.com' || /^(?:[a-z0-9-]{1,63}\.){1,4}linkedin\.com$/.test(host)
}

function otherThanLinkedIn(hasScheme: boolean, host: string): string {
  if (host.includes('@') && host.includes('.') && !hasScheme) return 'email address'
  return hasScheme || host.includes('.') ? 'not a linkedin.com address' : 'bare handle'
}

function decode(encoded: string): string | null {
  try {
    return decodeURIComponent(encoded)
  } catch {
    return null
  }
}
