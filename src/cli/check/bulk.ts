import type { Log } from '../../util/log.ts'
import type { Service } from '../../domain/service/service.ts'
import type { Environment } from '../../config/environment.ts'
import { checkBulkAvailability } from '../../actions/bulk-availability.ts'
import { toWebhookPath } from '../../webhook/address.ts'
import { DEFAULT_HOST, toListenProblem } from '../../http/receiver.ts'
import { openHttpServer } from '../../http/server.ts'
import { type Finding, createFailedFinding, createFinding } from './finding.ts'
import { describeNetworkError, sendRequest } from './request.ts'

/**
 * Checks whether bulk jobs are possible and whether their webhooks would arrive. Off is a choice, not an error.
 * @param name of several services
 */
export async function checkBulkSetup(
  environment: Environment,
  service: Service,
  log: Log,
  name: string | null = null,
): Promise<Finding> {
  const bulk = checkBulkAvailability(environment, service)
  if (!bulk.isPossible)
    // A service that has none misses nothing.
    return createFinding('bulk', bulk.todo === null ? 'ok' : 'warning', `off: ${bulk.reason}`, {
      todo: bulk.todo && `To enable it, ${bulk.todo}.`,
    })
  if (bulk.usesWebhook !== true) {
    const todo = bulk.todo && `To get results by webhook, sooner and without further calls, ${bulk.todo}.`
    return createFinding('bulk', 'ok', 'on: its results are in the answer, or fetched', { todo })
  }
  const { publicUrl } = environment
  if (publicUrl === null) return createFinding('bulk', 'ok', 'on: webhooks are received on this machine')
  const receiver = await openTemporaryReceiver(environment, service, log)
  if (receiver !== null && 'wrong' in receiver) return receiver.wrong
  try {
    return await deliver(environment, `${publicUrl}/webhooks/${toWebhookPath(name)}`)
  } finally {
    await receiver?.close()
  }
}

/** Deliveries without a signature. Null: they are signed, or none arrives. */
export function describeUnsigned(environment: Environment, service: Service): Finding | null {
  if (service.signature !== 'none' || checkBulkAvailability(environment, service).usesWebhook !== true)
    return null
  return createFinding('webhook', 'warning', 'deliveries are not signed: the address of its job proves one', {
    todo: 'Who learns the address can deliver results for that job. Describe `webhook.signature` if the service signs, and use https.',
  })
}

/**
 * Listens on the port of a run, so that the webhook URL leads somewhere. Null if no port is set, or if a run or
 * `fillrate serve` listens there already.
 */
async function openTemporaryReceiver(
  { port, host }: Environment,
  { signature }: Service,
  log: Log,
): Promise<{ close(): Promise<void> } | { wrong: Finding } | null> {
  if (port === null || port === 0) return null
  try {
    return await openHttpServer({
      host: host ?? DEFAULT_HOST,
      port,
      receive: async () => 'bad_signature',
      signature: () => signature,
      deliveries: { notify: () => {} },
      notReadyReason: async () => 'fillrate check tests whether this address is reachable',
      dashboard: null,
      log,
    })
  } catch (error) {
    const problem = await toListenProblem(error, host ?? DEFAULT_HOST, port)
    return problem && { wrong: createFailedFinding('bulk', problem) }
  }
}

/**
 * Sends a webhook without a signature, which a receiver must reject.
 * @param url for deliveries of the service
 */
async function deliver({ port, publicUrl, proxies }: Environment, url: string): Promise<Finding> {
  const wrong = (found: string): Finding =>
    createFailedFinding('bulk', {
      place: 'FILLRATE_PUBLIC_URL',
      found: `${url}: ${found}`,
      expected: 'the webhook receiver of Fillrate, which answers 401 without a signature',
      todo:
        port === null
          ? 'Correct the URL, set FILLRATE_PORT to the port that it forwards to, or start `fillrate serve` there.'
          : `Correct the URL, or the proxy that forwards it to port ${port} of this machine.`,
    })
  try {
    const { status, text } = await sendRequest(url, proxies, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    })
    if (status === 401 && text.includes('signature'))
      return createFinding('bulk', 'ok', `on: webhooks arrive at ${publicUrl}, which answers`)
    return wrong(`something else answers, with ${status}`)
  } catch (error) {
    const reason = describeNetworkError(error)
    if (!isSilent(error)) return wrong(reason)
    return createFinding('bulk', 'warning', `on: webhooks arrive at ${publicUrl}; ${reason} from here`, {
      todo: `If it is reachable only from outside, test it there: curl -X POST ${url} must return 401.`,
    })
  }
}

/** Some networks drop requests from inside to their own public address. */
const isSilent = (error: unknown): boolean =>
  error instanceof Error &&
  (error.name === 'TimeoutError' ||
    ('code' in error && /^(?:UND_ERR_(?:CONNECT|HEADERS|BODY)_TIMEOUT|ETIMEDOUT)$/.test(String(error.code))))
