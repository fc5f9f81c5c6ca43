import type { NormalizedInput } from './kind.ts'
import { trimBlank } from '../text.ts'
import { splitUrl, stripPort } from './host.ts'

const MAX_PROFILE_URL_LENGTH = 4096
/** LinkedIn allows 100 for a name one chooses; older ones with characters beyond ASCII are longer. */
const MAX_SLUG_LENGTH = 200

/** Never in a slug: white space, control characters, half a surrogate pair, and what delimits URLs and lists. */
const FORBIDDEN_IN_SLUG = /[\s\p{Cc}\p{Cs}%/\\?#<>",;:@]/u

/** Identifiers that LinkedIn makes itself are base64, so case matters in them; chosen names ignore it. */
const GENERATED_SLUG = /^ACoA[\w-]{20,}$/

const COMPANY_PAGES: ReadonlySet<string> = new Set(['company', 'school', 'showcase', 'organization'])

const rejectProfileUrl = (reason: string) => ({ ok: false, reason, input: 'linkedin_url' }) as const

/**
 * A personal profile, `linkedin.com/in/<slug>`, out of any scheme, host prefix (`no.`, `www.`, `m.`), case,
 * port, query or sub-page. Compared by the slug, decoded and in lower case; asked by the canonical URL.
 */
export function normalizeProfileUrl(raw: string | null): NormalizedInput<{ linkedin_url: string }> {
  const text = trimBlank(raw ?? '')
  if (text === '') return null
  if (text.length > MAX_PROFILE_URL_LENGTH) return rejectProfileUrl('over 4,096 characters')
  if (/\s/.test(text)) return rejectProfileUrl('white space inside')
  const { hasScheme, authority, path } = splitUrl(text)
  const host = stripPort(authority).toLowerCase()
  if (!isLinkedInHost(host)) return rejectProfileUrl(describeOtherHost(hasScheme, host))

  const [section, encoded] = path.split('/').filter((segment) => segment !== '')
  if (section === undefined) return rejectProfileUrl('no profile in the address')
  if (COMPANY_PAGES.has(section.toLowerCase())) return rejectProfileUrl('company page')
  if (section.toLowerCase() !== 'in') return rejectProfileUrl('not a profile page')
  if (encoded === undefined) return rejectProfileUrl('no profile in the address')

  const typed = decodeSlug(encoded)
  if (typed === null) return rejectProfileUrl('broken percent-encoding')
  // Composed before it is checked: NFC turns U+037E into a semicolon.
  const slug = trimBlank(typed.normalize('NFC'))
  if (FORBIDDEN_IN_SLUG.test(slug))
    return rejectProfileUrl('profile name with a character that is not allowed')
  if (!/[\p{L}\p{N}]/u.test(slug)) return rejectProfileUrl('no profile in the address')
  if (slug.length > MAX_SLUG_LENGTH) return rejectProfileUrl('profile name over 200 characters')
  const folded = slug.toLowerCase().normalize('NFC')
  const asked = encodeURIComponent(GENERATED_SLUG.test(slug) ? slug : folded)
  return {
    ok: true,
    key: `linkedin.com/in/${folded}`,
    input: { linkedin_url: `https://www.linkedin.com/in/${asked}` },
  }
}

function isLinkedInHost(host: string): boolean {
  return host === 'linkedin.com' || /^(?:[a-z0-9-]{1,63}\.){1,4}linkedin\.com$/.test(host)
}

function describeOtherHost(hasScheme: boolean, host: string): string {
  if (host.includes('@') && host.includes('.') && !hasScheme) return 'email address'
  return hasScheme || host.includes('.') ? 'not a linkedin.com address' : 'bare handle'
}

function decodeSlug(encoded: string): string | null {
  try {
    return decodeURIComponent(encoded)
  } catch {
    return null
  }
}
