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
export function serviceAddress(baseUrl: string): string {
  const { origin, prefix } = parseBaseUrl(baseUrl)
  return new URL(origin).host + prefix
}
