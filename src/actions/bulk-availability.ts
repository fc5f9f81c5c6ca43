import { variableOf, type Environment } from '../config/environment.ts'
import { listBulkCalls, type Service } from '../domain/service/service.ts'
import { isLoopbackUrl } from '../util/text.ts'

/** Whether lookups may go in bulk: their results must arrive, in the answer or as deliveries that can be verified. */
export interface BulkAvailability {
  readonly isPossible: boolean
  /** Whether deliveries arrive, and the receiver is needed. Missing where bulk is off. */
  readonly usesWebhook?: boolean
  /** Why not; null if possible. */
  readonly reason: string | null
  /** What would make it possible, or bring the results of jobs that are fetched sooner; null: nothing. */
  readonly todo: string | null
}

export function checkBulkAvailability(
  environment: Pick<Environment, 'webhookSecrets' | 'publicUrl' | 'baseUrl' | 'prefix'>,
  { signature, ...service }: Pick<Service, 'bulk' | 'companyBulk' | 'signature'>,
): BulkAvailability {
  const bulkCalls = listBulkCalls(service)
  if (bulkCalls.length === 0)
    return { isPossible: false, reason: 'the service has no bulk endpoint', todo: null }
  if (!bulkCalls.some(({ results }) => results === 'webhook'))
    return { isPossible: true, usesWebhook: false, reason: null, todo: null }
  const needsUrl = environment.publicUrl === null && !isLoopbackUrl(environment.baseUrl ?? '')
  const missing = [
    ...(environment.webhookSecrets.length === 0
      ? [
          [
            variableOf(environment, 'WEBHOOK_SECRET'),
            signature === 'none'
              ? 'a secret of your own, which makes the addresses of the webhooks (`openssl rand -hex 32`)'
              : 'the secret that the service signs webhooks with',
          ] as const,
        ]
      : []),
    ...(needsUrl
      ? [['FILLRATE_PUBLIC_URL', 'the URL at which the service reaches the webhook receiver'] as const]
      : []),
  ]
  if (missing.length > 0) {
    const todo = `set ${missing.map(([name, value]) => `${name} to ${value}`).join(', and ')}`
    // Its jobs are fetched. Deliveries would bring their results sooner, or are needed for a part of them.
    if (bulkCalls.some(({ needsWebhook }) => !needsWebhook))
      return { isPossible: true, usesWebhook: false, reason: null, todo }
    return {
      isPossible: false,
      reason: `${missing.map(([name]) => name).join(' and ')} ${missing.length === 1 ? 'is' : 'are'} not set`,
      todo,
    }
  }
  return { isPossible: true, usesWebhook: true, reason: null, todo: null }
}
