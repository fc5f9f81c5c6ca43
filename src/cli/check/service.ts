import { isOAuth, type OAuthClient, type ServiceAuth } from '../../domain/service/auth.ts'
import type { DocumentedLimit } from '../../domain/service/documented-limit.ts'
import type { Service } from '../../domain/service/service.ts'
import { type Environment, variableOf } from '../../config/environment.ts'
import { parseHttpDate } from '../../service/rate-limit/headers.ts'
import { formatCount, formatDuration, pluralize } from '../../util/format.ts'
import { networkErrorCode } from '../../util/network-errors.ts'
import { checkClient } from './client.ts'
import type { ClockReading } from './clock.ts'
import { type Finding, createFailedFinding, createFinding, createUnsetFinding } from './finding.ts'
import { describeNetworkError, sendRequest } from './request.ts'

/**
 * Checks that the service is reachable, by one HEAD request at its root without the key: free, and reveals nothing.
 * @returns its clock, if the response has a Date header
 */
export async function* checkService(
  environment: Environment,
  now: () => number,
): AsyncGenerator<Finding, ClockReading | null> {
  const { baseUrl, proxies } = environment
  const variable = variableOf(environment, 'BASE_URL')
  if (baseUrl === null) {
    yield createUnsetFinding('service', variable, 'the base URL of the enrichment service')
    return null
  }
  const { host } = new URL(baseUrl)
  const sentAt = now()
  try {
    const { status, headers } = await sendRequest(baseUrl, proxies, { method: 'HEAD' })
    const receivedAt = now()
    if (status >= 500)
      yield createFinding('service', 'warning', `${host} answers, with ${status}`, {
        todo: 'Contact the provider, or try again later.',
      })
    else yield createFinding('service', 'ok', `${host} answers`)
    const timeMs = parseHttpDate(String(headers['date'] ?? ''))
    return timeMs === null ? null : { whose: 'the service', timeMs, resolutionMs: 1_000, sentAt, receivedAt }
  } catch (error) {
    const isUntrusted = /SELF_SIGNED|UNABLE_TO_VERIFY/.test(networkErrorCode(error) ?? '')
    yield createFailedFinding('service', {
      place: variable,
      found: `${baseUrl}: ${describeNetworkError(error)}`,
      expected: 'a reachable service',
      todo: isUntrusted
        ? 'If you trust it, set NODE_EXTRA_CA_CERTS=/path/to/ca.pem.'
        : 'Correct the URL, or check your network and proxy.',
    })
    return null
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
    `${pluralize(apiKeys.length, 'key')}, sent as ${describeAuth(auth)}; not tested, because a call would be billed`,
  )
}

/** The limits that calls keep although no header need state them. */
export const createRateFinding = (limits: readonly DocumentedLimit[]): Finding =>
  createFinding(
    'rate',
    'ok',
    `calls keep to ${limits.map(describeDocumentedLimit).join(', ')}, and to what headers state beside`,
  )

const describeDocumentedLimit = ({ calls, windowMs, endpoint }: DocumentedLimit): string =>
  `${formatCount(calls)}${endpoint === null ? '' : ` ${endpoint} calls`} in ${formatDuration(windowMs)}`

const describeAuth = (
  auth: Exclude<ServiceAuth, { readonly oauth: OAuthClient }> | Environment['auth'],
): string =>
  typeof auth === 'string'
    ? auth
    : 'header' in auth
      ? `the header ${auth.header}`
      : `the query parameter ${auth.query}`
