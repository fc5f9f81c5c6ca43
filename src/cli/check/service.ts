import { isOAuth } from '../../domain/service/auth.ts'
import type { Service } from '../../domain/service/service.ts'
import { type Environment, variableOf } from '../../config/environment.ts'
import { pluralize } from '../../util/format.ts'
import { networkErrorCode } from '../../util/network-errors.ts'
import { checkClient } from './client.ts'
import { type Finding, createFailedFinding, createFinding, createUnsetFinding } from './finding.ts'
import { describeNetworkError, sendRequest } from './request.ts'

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
    const isUntrusted = /SELF_SIGNED|UNABLE_TO_VERIFY/.test(networkErrorCode(error) ?? '')
    return createFailedFinding('service', {
      place: variable,
      found: `${baseUrl}: ${describeNetworkError(error)}`,
      expected: 'a reachable service',
      todo: isUntrusted
        ? 'If you trust it, set NODE_EXTRA_CA_CERTS=/path/to/ca.pem.'
        : 'Correct the URL, or check your network and proxy.',
    })
  }
}

/**
 * Checks that a key is set. Only a billable call would show whether the service accepts it, but for a client of OAuth, which
 * is issued a token.
 */
export async function checkApiKey(
  environment: Environment,
  { auth: ownAuth }: Pick<Service, 'auth'>,
): Promise<Finding> {
  const { apiKeys } = environment
  const auth = ownAuth ?? environment.auth
  if (apiKeys.length === 0)
    return createUnsetFinding(
      'key',
      variableOf(environment, 'API_KEY'),
      'an API key of the enrichment service',
    )
  if (isOAuth(auth)) return checkClient(environment, auth.oauth)
  return createFinding(
    'key',
    'ok',
    `${pluralize(apiKeys.length, 'key')}; not tested, because a call would be billed`,
  )
}
