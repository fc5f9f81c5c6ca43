import { checkBulkAvailability } from '../../actions/bulk-availability.ts'
import type { ConfigService } from '../../config/config.ts'
import type { Environment } from '../../config/environment.ts'
import { loadServiceCases } from '../../config/load.ts'
import { readServiceEnvironment } from '../../config/service-environment.ts'
import { BUILT_IN_SERVICE } from '../../domain/service/built-in.ts'
import type { Service } from '../../domain/service/service.ts'
import { toWebhookPath } from '../../webhook/address.ts'
import { createFailedFinding, createFinding, type Finding } from './finding.ts'
import { checkApiKey, checkService, describeNetworkError, sendRequest } from './service.ts'
import { type CalledInput, makeOneCall, takesInput } from './service-call.ts'

interface ServiceChecks {
  /** As the service sees it. */
  readonly environment: Environment
  readonly address: string | null
  /** The module of its description, which may export cases. */
  readonly module: string | null
  readonly called: CalledInput | null
}

/** Checks a service: its address, key, description and deliveries. */
export async function* checkOneService(
  config: ConfigService,
  checks: ServiceChecks,
): AsyncGenerator<Finding> {
  const { environment, module, called } = checks
  const { adapter: service, name } = config
  yield await checkService(environment)
  const { problems } = readServiceEnvironment(service, environment)
  if (problems.length > 0) yield createFailedFinding('environment', ...problems)
  yield problems.length > 0
    ? createFinding('key', 'skipped', 'the environment lacks what the service needs')
    : await checkApiKey(environment, service)
  if (service !== BUILT_IN_SERVICE)
    yield describeCases(service.name, module === null ? null : await loadServiceCases(module))
  yield await checkBulkSetup(environment, service, name)
  const isCalled = called !== null && (name === null || (called.service ?? name) === name)
  if (isCalled && (name === null || takesInput(service, called.input)))
    yield* makeOneCall(service, environment, called.input, checks.address)
}

/** @param cases null: the description is in the configuration itself, which exports none */
function describeCases(name: string, cases: readonly unknown[] | null): Finding {
  if (cases === null || cases.length > 0) return createFinding('description', 'ok', name)
  const found = `${name}, without cases: nothing shows that its answers are read right`
  return createFinding('description', 'warning', found, {
    todo: 'Export `cases` from its module, and run `testService(service, cases)` in your tests.',
  })
}

/**
 * Checks whether bulk jobs are possible and whether their webhooks would arrive. Off is a choice, not an error.
 * @param name of several services
 */
export async function checkBulkSetup(
  environment: Environment,
  service: Service,
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
  return deliver(environment, publicUrl, `${publicUrl}/webhooks/${toWebhookPath(name)}`)
}

/**
 * Sends a webhook without a signature, which a receiver must reject. Where nothing answers, it may be that none is started
 * yet, or that the address is reachable only from outside: a warning.
 * @param url for deliveries of the service
 */
async function deliver({ proxies }: Environment, publicUrl: string, url: string): Promise<Finding> {
  let found: string
  try {
    const { status, text } = await sendRequest(url, proxies, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    })
    if (status === 401 && text.includes('signature'))
      return createFinding('bulk', 'ok', `on: webhooks arrive at ${publicUrl}, which answers`)
    if (status < 500)
      return createFailedFinding('bulk', {
        place: 'FILLRATE_PUBLIC_URL',
        found: `${url}: something else answers, with ${status}`,
        expected: 'the webhook receiver of Fillrate, which answers 401 without a signature',
        todo: 'Correct the URL, or what forwards it to FILLRATE_PORT of this machine.',
      })
    found = `status ${status}`
  } catch (error) {
    found = describeNetworkError(error)
  }
  return createFinding('bulk', 'warning', `on: webhooks arrive at ${publicUrl}; ${found} from here`, {
    todo: `While \`fillrate serve\` or a run listens, curl -X POST ${url} must return 401.`,
  })
}
