import { checkHost, toAsciiHost } from './host.ts'
import type { NormalizedInput } from './kind.ts'
import { trimBlank } from '../text.ts'

/** RFC 5321 sections 4.5.3.1.1 and 4.5.3.1.3 (a path of 256 octets has its angle brackets). */
const MAX_LOCAL_PART_LENGTH = 64
const MAX_ADDRESS_LENGTH = 254

/** The characters of a dot-atom, RFC 5322 section 3.2.3. */
const DOT_ATOM = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+$/

const rejectEmail = (reason: string) => ({ ok: false, reason, input: 'email' }) as const

/**
 * Normalizes one email address: trimmed, in lower case, its host in A-label form. Tags after a plus are kept: only the
 * mailbox host knows what they mean. A quoted local part (`"a b"@c.no`) is rejected although RFC 5321 allows it: in a CRM
 * it is nearly always a typing error, and it would put white space into a key.
 */
export function normalizeEmail(raw: string | null): NormalizedInput<{ email: string }> {
  const text = trimBlank(raw ?? '')
  if (text === '') return null
  const marks = describeNonAddress(text)
  if (marks !== null) return rejectEmail(marks)

  const at = text.indexOf('@')
  const local = text.slice(0, at)
  if (local === '') return rejectEmail('nothing before the @')
  if (local.startsWith('"')) return rejectEmail('quoted local part')
  // Before lower-casing, which turns a few non-ASCII characters (the Kelvin sign) into letters.
  if (!DOT_ATOM.test(local)) return rejectEmail('local part with a character that is not allowed')
  if (local.startsWith('.') || local.endsWith('.') || local.includes('..'))
    return rejectEmail('local part with a stray dot')
  if (local.length > MAX_LOCAL_PART_LENGTH) return rejectEmail('local part over 64 characters')

  const rest = text.slice(at + 1)
  if (rest.startsWith('[')) return rejectEmail('IP address')
  const host = toAsciiHost(rest)
  if (host === null) return rejectEmail('host with a character that is not allowed')
  const checked = checkHost(host)
  if (!checked.ok) return rejectEmail(checked.reason)
  const email = `${local.toLowerCase()}@${host}`
  if (email.length > MAX_ADDRESS_LENGTH) return rejectEmail('over 254 characters')
  return { ok: true, key: email, input: { email } }
}

/** Describes a text that is evidently not one bare address; null if it may be one. */
function describeNonAddress(text: string): string | null {
  // Nearly every address passes this one search; the searches after it find the reason why one does not.
  if (/^[^@,;<>\s:]+@[^@,;<>\s]+$/.test(text)) return null
  if (/^mailto:/i.test(text)) return 'mailto: link'
  const first = text.indexOf('@')
  if (first === -1) return 'no @'
  if (/[,;]/.test(text)) return 'list of addresses'
  if (/[<>]/.test(text)) return 'address with a display name'
  if (text.includes('@', first + 1)) return /[\s/|&]/.test(text) ? 'list of addresses' : 'more than one @'
  if (/\s/.test(text)) return 'white space inside'
  return null
}
