import { domainToASCII } from 'node:url'

type HostCheck =
  | { readonly ok: true; readonly host: string }
  | { readonly ok: false; readonly reason: string }

/** RFC 1035 section 2.3.4: 255 octets on the wire are 253 characters of text. */
const MAX_HOST_LENGTH = 253
const MAX_LABEL_LENGTH = 63

/** A name that is an internet host whatever it is checked for, unless it is `localhost`: nearly every one. */
const ORDINARY_HOST = /^(?:[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?\.)+[a-z]{2,63}$/

/** Every ASCII character but `a-z`, `0-9`, `-` and `.`. */
const FORBIDDEN_CHARACTERS = /[\0-,/:-`{-\x7f]/

/**
 * A host name in lower-case A-label form (`Bücher.de` → `xn--bcher-kva.de`), or null if impossible. Labels are checked by
 * `checkHost`.
 *
 * `domainToASCII` alone would not do: it decodes `%2e`, cuts at a slash, and reads `1.2.3` and `0x7f.1` as IPv4
 * addresses. So it is called only if there is something to convert, and never with a character that no host has.
 */
export function toAsciiHost(text: string): string | null {
  // A Unicode name is at most a few times longer than its A-labels; longer ones would take quadratic time.
  if (text.length > 4 * MAX_HOST_LENGTH) return null
  const lower = text.toLowerCase()
  if (/^[a-z\d.-]*$/.test(lower) && !lower.includes('xn--')) return lower
  if (FORBIDDEN_CHARACTERS.test(lower)) return null
  const host = domainToASCII(lower)
  return host === '' || FORBIDDEN_CHARACTERS.test(host) ? null : host
}

/** Checks that a name in A-label form is an internet host: dotted, with labels of letters, digits and hyphens. */
export function checkHost(host: string): HostCheck {
  const reject = (reason: string): HostCheck => ({ ok: false, reason })
  if (host === '') return reject('no host')
  if (host === 'localhost' || host.endsWith('.localhost')) return reject('localhost')
  if (host.length > MAX_HOST_LENGTH) return reject('host over 253 characters')
  if (ORDINARY_HOST.test(host)) return { ok: true, host }
  const labels = host.split('.')
  if (labels.includes('')) return reject('host with an empty label')
  // WHATWG URL, "ends in a number checker": such a host is an IPv4 address or nothing.
  if (/^(?:\d+|0x[\da-f]*)$/.test(labels.at(-1) ?? '')) return reject('IP address')
  if (labels.length < 2) return reject('host without a dot')
  for (const label of labels) {
    if (label.length > MAX_LABEL_LENGTH) return reject('host with a label over 63 characters')
    if (label.startsWith('-') || label.endsWith('-'))
      return reject('host with a hyphen at the end of a label')
  }
  return { ok: true, host }
}

/**
 * The parts of a web address as people type it, with or without a scheme. Split by hand, because `new URL` rejects
 * `acme.com`, reads `acme.com:80` as the scheme `acme.com:`, and drops and decodes characters that make a value invalid.
 */
interface UrlParts {
  readonly hasScheme: boolean
  /** The host, with any port and user name: everything up to the first `/`, `\`, `?` or `#`. */
  readonly authority: string
  /** From the first slash, without query and fragment; may be empty. */
  readonly path: string
}

/** Also `https:acme.com`, `http:/acme.com` and `//acme.com`. */
const SCHEME = /^(?:https?:[\\/]*|[a-z][a-z0-9+.-]{0,30}:\/\/|\/\/)/i

export function splitUrl(text: string): UrlParts {
  let rest = text
  // Repeatedly: forms that prefix `https://` to pasted text produce `https://https://acme.com`.
  for (let times = 0; times < 3; times++) rest = rest.replace(SCHEME, '')
  const end = rest.search(/[/\\?#]/)
  const authority = end === -1 ? rest : rest.slice(0, end)
  const tail = end === -1 ? '' : rest.slice(end)
  const query = tail.search(/[?#]/)
  return { hasScheme: rest !== text, authority, path: query === -1 ? tail : tail.slice(0, query) }
}

/** The authority without its port. */
export function stripPort(authority: string): string {
  return authority.replace(/:\d{0,5}$/, '')
}
