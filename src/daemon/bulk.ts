import { isIP } from 'node:net'
import type { Environment } from '../config/environment.ts'

/** Whether lookups can go in bulk: the service must reach us, and we must be able to tell its deliveries from others'. */
export interface Bulk {
  readonly possible: boolean
  /** Why not; null when it is possible. */
  readonly why: string | null
  /** What would make it possible. */
  readonly todo: string | null
}

export function bulkOf(environment: Pick<Environment, 'webhookSecrets' | 'publicUrl' | 'baseUrl'>): Bulk {
  if (environment.webhookSecrets.length === 0)
    return {
      possible: false,
      why: 'FILLRATE_WEBHOOK_SECRET is not set, so no delivery could be verified',
      todo: 'set FILLRATE_WEBHOOK_SECRET to the secret that the service signs its deliveries with',
    }
  if (environment.publicUrl === null && !isLoopback(environment.baseUrl))
    return {
      possible: false,
      why: 'FILLRATE_PUBLIC_URL is not set, so the service could not deliver results',
      todo: 'set FILLRATE_PUBLIC_URL to the address at which the service reaches this process',
    }
  return { possible: true, why: null, todo: null }
}

function isLoopback(url: string | null): boolean {
  if (url === null) return false
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '')
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}
