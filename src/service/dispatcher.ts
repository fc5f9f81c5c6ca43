import { EnvHttpProxyAgent, Pool, type Dispatcher } from 'undici'
import { isLoopbackUrl } from '../util/text.ts'

/** HTTP proxies, as HTTP_PROXY, HTTPS_PROXY and NO_PROXY name them. */
export interface ProxySettings {
  /** For http URLs, and for https URLs if `https` is null. */
  readonly http: string | null
  readonly https: string | null
  /** Hosts to reach directly, as NO_PROXY lists them. */
  readonly noProxy: string
}

/**
 * Opens a connection pool to one origin, through a proxy if one is set for it. Loopback hosts bypass the proxy, which
 * would resolve them to itself.
 */
export const openDispatcher = (
  origin: string,
  proxies: ProxySettings | undefined,
  options: Pool.Options,
): Dispatcher => openProxyDispatcher(origin, proxies, options) ?? new Pool(origin, options)

/** Opens a dispatcher through the proxy for a URL; null if it is reached directly. The caller closes it. */
export function openProxyDispatcher(
  url: string,
  proxies: ProxySettings | undefined,
  options: EnvHttpProxyAgent.Options = {},
): Dispatcher | null {
  if (proxies === undefined || !URL.canParse(url) || isLoopbackUrl(url)) return null
  const { http, https, noProxy } = proxies
  // Empty, not omitted: for an omitted option undici reads the environment of the process itself.
  return new EnvHttpProxyAgent({
    ...options,
    httpProxy: http ?? '',
    httpsProxy: https ?? '',
    noProxy,
  })
}

type BaseUrl = { origin: string; prefix: string }

/** Splits the base URL of the service, which the environment has checked. A trailing `/v1` is part of every endpoint's path. */
export function parseBaseUrl(text: string): BaseUrl {
  const { origin, pathname } = new URL(text)
  return { origin, prefix: pathname.replace(/\/+$/, '').replace(/\/v1$/, '') }
}

/**
 * What identifies a service, independently of the key: its host, with any path before `/v1`, because a test service may
 * differ by its path only.
 */
export function toServiceAddress(baseUrl: string): string {
  const { origin, prefix } = parseBaseUrl(baseUrl)
  return new URL(origin).host + prefix
}
