import { type Environment, variableOf } from '../../config/environment.ts'
import type { OAuthClient } from '../../domain/service/auth.ts'
import { ClientToken } from '../../service/client-token.ts'
import { parseBaseUrl } from '../../service/dispatcher.ts'
import { ServiceError, TokenUnavailableError } from '../../service/errors.ts'
import { TokenFailure } from '../../service/token-endpoint.ts'
import { createFailedFinding, createFinding, type Finding } from './finding.ts'

const TOKEN_TIMEOUT_MS = 5_000

/** Requests a token, which is not billed, and shows whether the endpoint issues one. */
export async function checkClient(environment: Environment, oauth: OAuthClient): Promise<Finding> {
  const { baseUrl, apiKeys, proxies } = environment
  const [client] = apiKeys
  // The checks before this one have reported what is missing.
  if (baseUrl === null || client === undefined)
    return createFinding('key', 'skipped', 'the address or the client of the service is missing')
  const base = parseBaseUrl(baseUrl)
  const options = { oauth, client, proxies, userAgent: 'fillrate', timeoutMs: TOKEN_TIMEOUT_MS }
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
