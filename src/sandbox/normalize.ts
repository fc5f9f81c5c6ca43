import { domainToASCII } from 'node:url'

/**
 * Canonical forms of inputs: equal for all spellings of one input. Each function returns undefined for text that is
 * not such an input, which the service answers with 422.
 */

/** Trims and collapses white space; undefined becomes an empty string. */
export function collapseSpaces(text: string | undefined): string {
  return text === undefined ? '' : text.trim().replaceAll(/\s+/g, ' ')
}

function canonicalHost(text: string): string | undefined {
  const lower = text.toLowerCase()
  // Most hosts are plain ASCII, and the conversion is the slowest part of parsing a call.
  const host = /^[a-z0-9.-]+$/.test(lower) ? lower : domainToASCII(lower)
  const labels = host.split('.')
  // The last label of an IP address is a number; that of a domain never is.
  if (labels.length < 2 || host.length > 253 || /^\d+$/.test(labels.at(-1) ?? '')) return undefined
  return labels.every((label) => /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/.test(label)) ? host : undefined
}

/** One bare email address; case and surrounding white space are ignored. */
export function canonicalEmail(text: string): string | undefined {
  const email = text.trim().toLowerCase()
  const at = email.lastIndexOf('@')
  const local = email.slice(0, Math.max(at, 0))
  const host = canonicalHost(email.slice(at + 1))
  return host === undefined || local.length > 64 || !/^[^\s@<>()[\],;:"\\]+$/.test(local)
    ? undefined
    : `${local}@${host}`
}

/** Host and path of an http(s) URL that has both. */
export function canonicalProfileUrl(text: string): string | undefined {
  const url = URL.parse(text.trim())
  if (url === null || !/^https?:$/.test(url.protocol)) return undefined
  // A country host (`no.linkedin.com`) shows the same profile.
  const host = canonicalHost(url.hostname)?.replace(/^(www\.|.+\.(?=linkedin\.com$))/, '')
  const path = url.pathname.replace(/\/+$/, '')
  return host === undefined || path === '' ? undefined : `${host}${decoded(path)}`.toLowerCase()
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}

/** A bare domain, with or without `www.`. */
export function canonicalDomain(text: string): string | undefined {
  return canonicalHost(text.trim())?.replace(/^www\.(?=.+\.)/, '')
}

/**
 * The webhook URL, or the reason why the sandbox does not deliver to it. Only this machine is a target: a sandbox
 * that posted to any URL could be used to reach other hosts.
 */
export function parseWebhookUrl(text: string): URL | string {
  const url = URL.parse(text)
  if (url === null) return 'webhook_url is not a URL'
  if (url.protocol !== 'http:')
    return `webhook_url is ${url.protocol}, and the sandbox delivers over http: only`
  const host = url.hostname
  if (host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host)) return url
  return `webhook_url has the host ${host}, and the sandbox delivers only to this machine (127.0.0.1, [::1], localhost)`
}
