import type { Environment } from '../config/environment.ts'
import { serviceAddress } from '../service/base-url.ts'
import * as services from '../store/services.ts'
import type { Deps } from './deps.ts'

/** What the configured service is known by. Null: none is configured. */
export const addressOf = ({ baseUrl }: Pick<Environment, 'baseUrl'>): string | null =>
  baseUrl === null ? null : serviceAddress(baseUrl)

/**
 * The number of the service that is asked from now on, and whose answers count. Says so where another one was asked
 * before: none of what that one answered is used, and everything is paid again.
 */
export async function registerService(
  { db, log }: Pick<Deps, 'db' | 'log'>,
  address: string | null,
): Promise<number> {
  if (address === null) return services.find(db, null)
  const known = (await services.list(db)).map((one) => one.host)
  if (known.length > 0 && !known.includes(address))
    log.warn(
      { service: address, before: known },
      'another service was asked before: none of its answers counts for this one',
    )
  return services.register(db, address)
}
