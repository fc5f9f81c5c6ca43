import { requireSetting } from './validate-request.ts'
import type { ConfigService } from '../config/config.ts'
import { type Environment, variableOf, readServiceEnvironment } from '../config/environment.ts'
import { ConfigProblems } from '../config/problems.ts'
import type { MetricsRecorder } from '../pipeline/metrics-recorder.ts'
import { EnrichmentClient } from '../service/client.ts'
import type { Log } from '../util/log.ts'

/**
 * Concurrent calls for each spare connection. undici uses a connection again only two turns of the event loop after its
 * last answer, so that without spare connections each slot would be idle between two calls.
 */
const CALLS_PER_SPARE_CONNECTION = 4

/**
 * Whether a response proves that the service accepts the key. Any other status may come from a proxy before it.
 * @example isKeyAccepted(404) // true: it knows no such person
 */
const isKeyAccepted = (status: number | null): boolean =>
  status !== null && ((status >= 200 && status < 300) || status === 404)

/**
 * Opens the client of the configured service, which counts its calls and knows whether its key is rejected. Makes no call.
 * @throws ConfigProblems if the service's URL, its key, or what its description requires of the environment is missing
 */
export function openServiceClient(
  {
    config,
    environment,
    log,
  }: { readonly config: ConfigService; readonly environment: Environment; readonly log: Log },
  metrics: Pick<MetricsRecorder, 'recordCall'>,
  onKeyAccepted: () => void,
): EnrichmentClient {
  const { apiKeys, proxies } = environment
  const { variables, problems } = readServiceEnvironment(config.adapter, environment)
  if (problems.length > 0) throw new ConfigProblems('the environment', problems)
  const { concurrency, timeoutMs } = config
  return new EnrichmentClient({
    baseUrl: requireSetting(
      environment.baseUrl,
      variableOf(environment, 'BASE_URL'),
      'the URL of the enrichment service',
    ),
    apiKey: requireSetting(
      apiKeys.length > 0 ? apiKeys : null,
      variableOf(environment, 'API_KEY'),
      'a key of the enrichment service',
    ),
    service: config.adapter,
    auth: environment.auth,
    variables,
    proxies,
    timeoutMs,
    connections: concurrency + Math.ceil(concurrency / CALLS_PER_SPARE_CONNECTION),
    onCallEnd: (call) => {
      metrics.recordCall(call)
      // Also what a client of an earlier configuration was refused: a reload opens another one.
      if (isKeyAccepted(call.status)) onKeyAccepted()
    },
    // Without another key it is a condition, which is logged as one.
    onKeyRejected: (rejection) => {
      if (rejection.usableKeys > 0)
        log.warn({ event: 'key_rejected', ...rejection }, 'the service rejected a key; the next one is used')
    },
    onKeyAccepted: (keyId) => log.info({ event: 'key_accepted', keyId }, 'the service accepts the key again'),
  })
}
