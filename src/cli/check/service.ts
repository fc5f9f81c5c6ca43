import { type Dispatcher, request } from 'undici'
import { type OAuthClient, isOAuth } from '../../domain/service/auth.ts'
import type { Service } from '../../domain/service/service.ts'
import { type Environment, variableOf } from '../../config/environment.ts'
import { callAccount, describeAccount } from '../../actions/try-service.ts'
import { ClientToken } from '../../service/client-token.ts'
import { type ProxySettings, openDispatcher, parseBaseUrl } from '../../service/dispatcher.ts'
import { ServiceError, TokenUnavailableError } from '../../service/errors.ts'
import { TokenFailure } from '../../service/token-endpoint.ts'
import { pluralize } from '../../util/format.ts'
import { networkErrorCode, networkErrorMeaning } from '../../util/network-errors.ts'
import { type Finding, createFailedFinding, createFinding, createUnsetFinding } from './finding.ts'

/** The timeout of network requests, in milliseconds. */
const CHECK_TIMEOUT_MS = 5_000

/** Checks that the service is reachable, by one HEAD request at its root without the key: free, and reveals nothing. */
export async function checkService(environment: Environment): Promise<Finding> {
  const { baseUrl, proxies } = environment
  const variable = variableOf(environment, 'BASE_URL')
  if (baseUrl === null)
    return createUnsetFinding('service', variable, 'the base URL of the enrichment service')
  const { host } = new URL(baseUrl)
  try {
    const { status } = await sendRequest(baseUrl, proxies, { method: 'HEAD' })
    if (status < 500) return createFinding('service', 'ok', `${host} answers`)
    return createFinding('service', 'warning', `${host} answers, with ${status}`, {
      todo: 'Contact the provider, or try again later.',
    })
  } catch (error) {
    return createFailedFinding('service', {
      place: variable,
      found: `${baseUrl}: ${describeNetworkError(error)}`,
      expected: 'a reachable service',
      todo: 'Correct the URL, or check your network, proxy and certificates (NODE_EXTRA_CA_CERTS).',
    })
  }
}

/**
 * Checks that a key is set, and whether the service accepts it, by its free call for the account. Without one only a
 * billable call would show it, but for a client of OAuth, which is issued a token.
 */
export async function checkApiKey(environment: Environment, service: Service): Promise<Finding> {
  const { apiKeys } = environment
  const auth = service.auth ?? environment.auth
  if (apiKeys.length === 0)
    return createUnsetFinding(
      'key',
      variableOf(environment, 'API_KEY'),
      'an API key of the enrichment service',
    )
  const account = await callAccount(service, environment)
  if (account?.isAccepted === false)
    return createFailedFinding('key', {
      place: variableOf(environment, 'API_KEY'),
      found: account.reason,
      expected: 'a key that the service accepts',
      todo: 'Correct the key, or the path of `account` in the description.',
    })
  if (account !== null) return createFinding('key', 'ok', describeAccount(account))
  if (isOAuth(auth)) return checkClient(environment, auth.oauth)
  return createFinding(
    'key',
    'ok',
    `${pluralize(apiKeys.length, 'key')}; not tested, because a call would be billed`,
  )
}

/** Requests a token, which is not billed, and shows whether the endpoint issues one. */
async function checkClient(environment: Environment, oauth: OAuthClient): Promise<Finding> {
  const { baseUrl, apiKeys, proxies } = environment
  const [client] = apiKeys
  // The checks before this one have reported what is missing.
  if (baseUrl === null || client === undefined)
    return createFinding('key', 'skipped', 'the address or the client of the service is missing')
  const base = parseBaseUrl(baseUrl)
  const options = { oauth, client, proxies, userAgent: 'fillrate', timeoutMs: CHECK_TIMEOUT_MS }
  const token = new ClientToken({ ...base, ...options })
  try {
    await token.get('the token', undefined)
    return createFinding('key', 'ok', 'a client, for which the token endpoint issues a token')
  } catch (error) {
    if (!(error instanceof TokenFailure || error instanceof ServiceError)) throw error
    const isRefused = error instanceof TokenFailure
    return createFailedFinding('key', {
      place: isRefused ? variableOf(environment, 'API_KEY') : 'auth.oauth.tokenUrl',
      found: error instanceof TokenUnavailableError ? error.reason : error.message,
      expected: 'an access token',
      todo: isRefused ? "Correct the client's id and secret." : 'Correct the address, or try again later.',
    })
  } finally {
    await token.close()
  }
}

/** Sends one request, and reads its answer. */
export async function sendRequest(
  url: string,
  proxies: ProxySettings | undefined,
  options: Pick<Dispatcher.RequestOptions, 'method' | 'headers' | 'body'>,
): Promise<{ readonly status: number; readonly text: string }> {
  const dispatcher = openDispatcher(new URL(url).origin, proxies, {})
  try {
    const { statusCode, body } = await request(url, {
      dispatcher,
      ...options,
      headersTimeout: CHECK_TIMEOUT_MS,
      bodyTimeout: CHECK_TIMEOUT_MS,
      signal: AbortSignal.timeout(CHECK_TIMEOUT_MS),
    })
    return { status: statusCode, text: await body.text() }
  } finally {
    await dispatcher.destroy()
  }
}

/** The reason why a request failed, in words. */
export function describeNetworkError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const code = networkErrorCode(error)
  if (error.name === 'TimeoutError' || code === 'UND_ERR_HEADERS_TIMEOUT')
    return `no response within ${CHECK_TIMEOUT_MS / 1_000} s`
  const meaning = networkErrorMeaning(code)
  if (meaning === null) return code ?? error.message
  return code?.startsWith('UND_ERR') ? meaning : `${meaning} (${code})`
}
