import { domainToASCII } from 'node:url'

export type Host =
  | { readonly ok: true; readonly host: string }
  | { readonly ok: false; readonly reason: string }

/** RFC 1035 section 2.3.4: 255 octets on the wire are 253 characters of text. */
const longestHost = 253
const longestLabel = 63

/** Every ASCII character but `a-z`, `0-9`, `-` and `.`. */
const forbidden = /[\0-,/:-`{-\x7f]/

/**
 * A host's name in lower-case A-label form (`Bücher.de` → `xn--bcher-kva.de`), or null when it can't be one.
 * Its labels are not checked yet: see `checkHost`.
 *
 * `domainToASCII` alone would not do: it decodes `%2e`, cuts at a slash, and reads `1.2.3` and `0x7f.1` as
 * IPv4 addresses. So it is only asked where there is something to convert, and never sees a character that
 * no host has.
 */
export function toALabels(text: string): string | null {
  // A Unicode name is at most a few times longer than its A-labels; beyond that, converting costs quadratic time.
  if (text.length > 4 * longestHost) return null
  const lower = text.toLowerCase()
  if (forbidden.test(lower)) return null
  // oxlint-disable-next-line no-control-regex -- beyond ASCII is exactly what is meant
  if (/^[\0-\x7f]*$/.test(lower) && !lower.includes('xn--')) return lower
  const host = domainToASCII(lower)
  return host === '' || forbidden.test(host) ? null : host
}

/** Whether a name in A-label form is that of a host on the internet: dotted, with labels of letters, digits and hyphens. */
export function checkHost(host: string): Host {
  const refuse = (reason: string): Host => ({ ok: false, reason })
  if (host === '') return refuse('no host')
  if (host === 'localhost' || host.endsWith('.localhost')) return refuse('localhost')
  if (host.length > longestHost) return refuse('host over 253 characters')
  const labels = host.split('.')
  if (labels.includes('')) return refuse('host with an empty label')
  // WHATWG URL, "ends in a number checker": such a host is an IPv4 address or nothing.
  if (/^(?:\d+|0x[\da-f]*)$/.test(labels.at(-1) ?? '')) return refuse('IP address')
  if (labels.length < 2) return refuse('host without a dot')
  for (const label of labels) {
    if (label.length > longestLabel) return refuse('host with a label over 63 characters')
    if (label.startsWith('-') || label.endsWith('-'))
      return refuse('host with a hyphen at the end of a label')
  }
  return { ok: true, host }
}
