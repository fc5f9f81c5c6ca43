import { type Environment, checkClient } from '../config/environment.ts'
import type { Service } from '../domain/service/service.ts'
import { EnrichmentClient } from '../service/client.ts'
import { UnauthorizedError } from '../service/errors.ts'
import { describeError } from '../util/error-text.ts'
import { pluralize } from '../util/format.ts'

/** What the free call for the account says. */
export type AccountAnswer =
  | {
      readonly isAccepted: true
      /** That are left. Null: the description does not say where they stand. */
      readonly credits: number | null
    }
  | { readonly isAccepted: false; readonly reason: string }

/** What an accepted key says of the account. */
export const describeAccount = ({ credits }: Extract<AccountAnswer, { isAccepted: true }>): string =>
  `accepted by the service${credits === null ? '' : `; ${pluralize(credits, 'credit')} left`}`

const TIMEOUT_MS = 10_000

/** A client for one call beside those of runs; null: the environment lacks what the service needs. */
export function openClient(
  service: Service,
  environment: Environment,
  timeoutMs?: number,
): EnrichmentClient | null {
  const { baseUrl, apiKeys: apiKey, auth, proxies } = environment
  if (baseUrl === null || apiKey.length === 0 || checkClient(service, environment).length > 0) return null
  const timeout = timeoutMs === undefined ? {} : { timeoutMs }
  return new EnrichmentClient({ baseUrl, apiKey, auth, proxies, service, ...timeout })
}

/**
 * Requests the account of a service, with the first of its keys that it accepts.
 * @returns null: its description names no such call, or the environment lacks what it needs
 */
export async function callAccount(service: Service, environment: Environment): Promise<AccountAnswer | null> {
  const client = service.account && openClient(service, environment, TIMEOUT_MS)
  if (client === null) return null
  try {
    for (;;)
      try {
        return { isAccepted: true, credits: await client.readAccount() }
      } catch (error) {
        if (!(error instanceof UnauthorizedError && error.hasNextKey))
          return { isAccepted: false, reason: describeError(error) }
      }
  } finally {
    await client.close()
  }
}
