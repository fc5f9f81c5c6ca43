import { isIP } from 'node:net'
import { checkHost, toALabels } from './host.ts'
import type { Normalized } from './kind.ts'
import { isFreeMailHost, isSocialHost } from './shared-hosts.ts'
import { trim } from './space.ts'
import { splitUrl, withoutPort } from './url.ts'

/** Longer than any address that people keep, and short enough to look at whole. */
const longestUrl = 4096

const refuse = (reason: string) => ({ ok: false, reason, input: 'domain' }) as const

/**
 * A company's domain out of a URL or a host: without scheme, port, path, leading `www.` and trailing dot, in
 * lower case and A-label form. Free-mail and social hosts are refused: the service would answer with the
 * host's owner, and every customer with a page there would get that company's figures.
 */
export function normalizeDomain(raw: string | null): Normalized<{ domain: string }> {
  const text = trim(raw ?? '')
  if (text === '') return null
  if (text.length > longestUrl) return refuse('over 4,096 characters')
  const { hasScheme, authority } = splitUrl(text)
  if (authority.includes('@')) return refuse(hasScheme ? 'address with a user name' : 'email address')
  if (/[,;]/.test(authority)) return refuse('list of domains')
  if (/\s/.test(authority)) return refuse('white space inside')
  if (authority.startsWith('[') || isIP(authority) !== 0) return refuse('IP address')

  const ascii = toALabels(withoutPort(authority))
  if (ascii === null) return refuse('host with a character that is not allowed')
  const checked = checkHost(withoutWww(ascii.endsWith('.') ? ascii.slice(0, -1) : ascii))
  if (!checked.ok) return refuse(checked.reason)
  const domain = checked.host
  if (isFreeMailHost(domain)) return refuse('free-mail host')
  if (isSocialHost(domain)) return refuse('social host')
  return { ok: true, key: domain, input: { domain } }
}

/** Also of `www.www.acme.no`, so that a normalised domain stays as it is; `www.com` is a domain of its own. */
function withoutWww(host: string): string {
  let start = 0
  while (host.startsWith('www.', start) && host.includes('.', start + 4)) start += 4
  return host.slice(start)
}
