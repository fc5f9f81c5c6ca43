import type { FromEnvironment, ServiceAuth } from '../domain/service/auth.ts'
import type { RequestParts, Service, ServiceEndpoint } from '../domain/service/service.ts'
import { credentialFor } from './api-keys.ts'
import type { ExchangeRequest } from './exchange.ts'

/** Values of the environment variables that a service's description names. */
export type ServiceVariables = Readonly<Record<string, string>>

interface RequestSettings {
  readonly origin: string
  /** Of every path. */
  readonly prefix: string
  readonly service: Pick<Service, 'headers'>
  readonly auth: ServiceAuth
  readonly userAgent: string
  readonly variables: ServiceVariables
}

/**
 * Returns a function that writes the requests to a service, with what they have in common.
 * @throws TypeError if a variable is missing
 */
export function createRequestWriter({
  origin,
  prefix,
  service,
  auth,
  userAgent,
  variables,
}: RequestSettings): (endpoint: ServiceEndpoint, parts: RequestParts, secret: string) => ExchangeRequest {
  const ownHeaders = Object.entries(service.headers).flatMap(([name, value]) => [
    name,
    fillFromEnvironment(value, variables),
  ])
  // No compression: records are small, and a broken encoding is one more way to lose a response.
  const common = ['accept', 'application/json', 'accept-encoding', 'identity', 'user-agent', userAgent]
  return (endpoint, parts, secret) => {
    const [method, ownPath] = endpoint.split(' ') as ['GET' | 'POST', string]
    const credential = credentialFor(auth, secret)
    const query = [parts.query, credential.query].filter((part) => part != null && part !== '')
    const headers = [...common]
    if (parts.body !== undefined)
      headers.push(
        'content-type',
        parts.isForm === true ? 'application/x-www-form-urlencoded' : 'application/json',
      )
    headers.push(...ownHeaders)
    if (credential.header !== null) headers.push(...credential.header)
    return {
      origin,
      method,
      path: prefix + (parts.path ?? ownPath) + (query.length === 0 ? '' : `?${query.join('&')}`),
      headers,
      body: parts.body ?? null,
    }
  }
}

function fillFromEnvironment(value: string | FromEnvironment, variables: ServiceVariables): string {
  if (typeof value === 'string') return value
  const found = variables[value.env]
  if (found === undefined)
    throw new TypeError(`${value.env} is not set: the description of the service names it`)
  return found
}
