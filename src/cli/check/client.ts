import { type Environment, variableOf } from '../../config/environment.ts'
import type { OAuthClient } from '../../domain/service/auth.ts'
import { KeyRing } from '../../service/api-keys.ts'
import { ClientTokens } from '../../service/client-tokens.ts'
import { parseBaseUrl } from '../../service/dispatcher.ts'
import { ServiceError, TokenUnavailableError } from '../../service/errors.ts'
import { TokenFailure } from '../../service/token-endpoint.ts'
import { pluralize } from '../../util/format.ts'
import { createFailedFinding, createFinding, type Finding } from './finding.ts'

const TOKEN_TIMEOUT_MS = 5_000

/** Requests a token for each client, which is not billed, and shows whether the endpoint accepts it. */
export async function checkClients(environment: Environment, oauth: OAuthClient): Promise<Finding> {
  const { baseUrl, apiKeys, proxies } = environment
  // The checks before this one have reported what is missing.
  if (baseUrl === null || apiKeys.length === 0)
    return createFinding('key', 'skipped', 'the address or the client of the service is missing')
  const { all: keys } = new KeyRing(apiKeys)
  const timeoutMs = TOKEN_TIMEOUT_MS
  const base = parseBaseUrl(baseUrl)
  const tokens = new ClientTokens({
    ...base,
    oauth,
    keys,
    proxies,
    userAgent: 'fillrate',
    timeoutMs,
  })
  try {
    for (const key of keys) await tokens.get(key, 'the token', undefined)
    return createFinding(
      'key',
      'ok',
      `${pluralize(keys.length, 'client')}, for ${keys.length === 1 ? 'which' : 'each of which'} the token endpoint issues a token`,
    )
  } catch (error) {
    if (!(error instanceof TokenFailure || error instanceof ServiceError)) throw error
    const isRefused = error instanceof TokenFailure
    return createFailedFinding('key', {
      place: isRefused ? variableOf(environment, 'API_KEY') : 'auth.oauth.tokenUrl',
      found: error instanceof TokenUnavailableError ? error.reason : error.message,
      expected: 'an access token',
      todo: isRefused
        ? "Correct the client's id and secret, or `scope`, `audience` and `credentials` of `auth.oauth`."
        : 'Correct the address, or try again later.',
    })
  } finally {
    await tokens.close()
  }
}
