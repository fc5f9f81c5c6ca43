import { isIP } from 'node:net'
import { EnvHttpProxyAgent, Pool, type Dispatcher } from 'undici'

/** The proxies of a network that lets nothing out by itself. */
export interface Proxies {
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
export function connectionsTo(
  origin: string,
  proxies: Proxies | undefined,
  options: Pool.Options,
): Dispatcher {
  return openProxied(origin, proxies, options) ?? new Pool(origin, options)
}

/** What a single request goes through; null: straight. To be closed after it. */
export function openProxied(
  url: string,
  proxies: Proxies | undefined,
  options: Pool.Options = {},
): Dispatcher | null {
  if (proxies === undefined || !URL.canParse(url) || isOnThisMachine(new URL(url).hostname)) return null
  const { http, https, except } = proxies
  // Empty and not left out: for what is left out it would look at the environment of the process by itself.
  return new EnvHttpProxyAgent({
    ...options,
    httpProxy: http ?? '',
    httpsProxy: https ?? '',
    noProxy: except,
  })
}

function isOnThisMachine(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '')
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}
