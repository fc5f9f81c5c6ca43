import { isIP } from 'node:net'
import { EnvHttpProxyAgent, Pool, type Dispatcher } from 'undici'

/** The proxies of a network that lets nothing out by itself. */
export interface ProxySettings {
  /** For addresses that begin with http, and with https where `https` is null. */
  readonly http: string | null
  readonly https: string | null
  /** Hosts that are called straight, as NO_PROXY lists them. */
  readonly except: string
}

/**
 * Connections to one origin, through a proxy where one is set for it. What is on this machine is never asked for through
 * a proxy, which would look for it on its own.
 */
export function openDispatcher(
  origin: string,
  proxies: ProxySettings | undefined,
  options: Pool.Options,
): Dispatcher {
  return openProxyDispatcher(origin, proxies, options) ?? new Pool(origin, options)
}

/** What a single request goes through; null: straight. To be closed after it. */
export function openProxyDispatcher(
  url: string,
  proxies: ProxySettings | undefined,
  options: Pool.Options = {},
): Dispatcher | null {
  if (proxies === undefined || !URL.canParse(url) || isLoopbackHost(new URL(url).hostname)) return null
  const { http, https, except } = proxies
  // Empty and not left out: for what is left out it would look at the environment of the process by itself.
  return new EnvHttpProxyAgent({
    ...options,
    httpProxy: http ?? '',
    httpsProxy: https ?? '',
    noProxy: except,
  })
}

function isLoopbackHost(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '')
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

export type BaseUrl = { origin: string; prefix: string }

/**
 * Where the service is: an http or https address that may carry a path. The version is part of every
 * endpoint's path (interface document, Versioning 1), so a trailing `/v1` is left off. Throws a TypeError that
 * holds no credentials.
 */
export function parseBaseUrl(text: string): BaseUrl {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new TypeError('the base address of the service is no http or https address (FILLRATE_BASE_URL)')
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new TypeError(
      `the base address of the service (FILLRATE_BASE_URL, at ${url.host}) carries a user, a password, a query or ` +
        'a fragment: expected scheme, host and path only; the key goes into FILLRATE_API_KEY',
    )
  }
  return { origin: url.origin, prefix: url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '') }
}

/**
 * What a service is known by, whatever key is shown to it: its host, with the path in front of `/v1` where there is one,
 * because a test service may be no more than another path.
 */
export function toServiceAddress(baseUrl: string): string {
  const { origin, prefix } = parseBaseUrl(baseUrl)
  return new URL(origin).host + prefix
}
