import { domainToASCII } from 'node:url'

export type HostCheck =
  | { readonly ok: true; readonly host: string }
  | { readonly ok: false; readonly reason: string }

/** RFC 1035 section 2.3.4: 255 octets on the wire are 253 characters of text. */
const MAX_HOST_LENGTH = 253
const MAX_LABEL_LENGTH = 63

/** Every ASCII character but `a-z`, `0-9`, `-` and `.`. */
const FORBIDDEN_CHARACTERS = /[\0-,/:-`{-\x7f]/

/**
 * A host's name in lower-case A-label form (`Bücher.de` → `xn--bcher-kva.de`), or null when it can't be one.
 * Its labels are not checked yet: see `checkHost`.
 *
 * `domainToASCII` alone would not do: it decodes `%2e`, cuts at a slash, and reads `1.2.3` and `0x7f.1` as
 * IPv4 addresses. So it is only asked where there is something to convert, and never sees a character that
 * no host has.
 */
export function toAsciiHost(text: string): string | null {
  // A Unicode name is at most a few times longer than its A-labels; beyond that, converting costs quadratic time.
  if (text.length > 4 * MAX_HOST_LENGTH) return null
  const lower = text.toLowerCase()
  if (FORBIDDEN_CHARACTERS.test(lower)) return null
  // oxlint-disable-next-line no-control-regex -- beyond ASCII is exactly what is meant
  if (/^[\0-\x7f]*$/.test(lower) && !lower.includes('xn--')) return lower
  const host = domainToASCII(lower)
  return host === '' || FORBIDDEN_CHARACTERS.test(host) ? null : host
}

/** Whether a name in A-label form is that of a host on the internet: dotted, with labels of letters, digits and hyphens. */
export function checkHost(host: string): HostCheck {
  const refuse = (reason: string): HostCheck => ({ ok: false, reason })
  if (host === '') return refuse('no host')
  if (host === 'localhost' || host.endsWith('.localhost')) return refuse('localhost')
  if (host.length > MAX_HOST_LENGTH) return refuse('host over 253 characters')
  const labels = host.split('.')
  if (labels.includes('')) return refuse('host with an empty label')
  // WHATWG URL, "ends in a number checker": such a host is an IPv4 address or nothing.
  if (/^(?:\d+|0x[\da-f]*)$/.test(labels.at(-1) ?? '')) return refuse('IP address')
  if (labels.length < 2) return refuse('host without a dot')
  for (const label of labels) {
    if (label.length > MAX_LABEL_LENGTH) return refuse('host with a label over 63 characters')
    if (label.startsWith('-') || label.endsWith('-'))
      return refuse('host with a hyphen at the end of a label')
  }
  return { ok: true, host }
}

/**
 * The parts of something that a person typed as a web address, with or without a scheme, split by hand:
 * `new URL` refuses `acme.com`, reads `acme.com:80` as the scheme `acme.com:`, and drops and decodes
 * characters that should make a value invalid.
 */
export interface UrlParts {
  readonly hasScheme: boolean
  /** The host, and a port or a user name where there is one: all up to the first `/`, `\`, `?` or `#`. */
  readonly authority: string
  /** From its first slash on, without query and fragment; `''` when there is none. */
  readonly path: string
}

/** Also `https:acme.com`, `http:/acme.com` and `//acme.com`. */
const SCHEME = /^(?:https?:[\\/]*|[a-z][a-z0-9+.-]{0,30}:\/\/|\/\/)/i

export function splitUrl(text: string): UrlParts {
  let rest = text
  // More than once: forms that put `https://` before whatever is pasted leave `https://https://acme.com`.
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
