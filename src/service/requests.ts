import type { ServiceAuth } from '../domain/service/auth.ts'
import type { RequestParts, Service, ServiceEndpoint } from '../domain/service/service.ts'
import { credentialFor } from './api-keys.ts'
import type { ExchangeRequest } from './exchange.ts'

interface RequestSettings {
  readonly origin: string
  /** Of every path. */
  readonly prefix: string
  readonly service: Pick<Service, 'headers'>
  readonly auth: ServiceAuth
  readonly userAgent: string
}

/** Returns a function that writes the requests to a service, with what they have in common. */
export function createRequestWriter({
  origin,
  prefix,
  service,
  auth,
  userAgent,
}: RequestSettings): (endpoint: ServiceEndpoint, parts: RequestParts, secret: string) => ExchangeRequest {
  const ownHeaders = Object.entries(service.headers).flat()
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
