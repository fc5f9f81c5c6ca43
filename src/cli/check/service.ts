import { request } from 'undici'
import { openProxyDispatcher } from '../../service/dispatcher.ts'
import type { Environment } from '../../config/environment.ts'
import { parseHttpDate } from '../../service/rate-limit/headers.ts'
import { pluralize } from '../../util/format.ts'
import type { ClockReading } from './clock.ts'
import {
  CHECK_TIMEOUT_MS,
  type Finding,
  createFailedFinding,
  createFinding,
  describeNetworkError,
} from './finding.ts'

/**
 * Whether the service answers at all. One HEAD at its root, without the key: it costs nothing and tells nothing.
 * @returns what time it is there, where its answer says so
 */
export async function* checkService(
  { baseUrl, proxies }: Environment,
  now: () => number,
): AsyncGenerator<Finding, ClockReading | null> {
  if (baseUrl === null) {
    yield unset('service', 'FILLRATE_BASE_URL', 'the address of the enrichment service')
    return null
  }
  const { host } = new URL(baseUrl)
  const dispatcher = openProxyDispatcher(baseUrl, proxies)
  const asked = now()
  try {
    const { statusCode, headers, body } = await request(baseUrl, {
      ...(dispatcher && { dispatcher }),
      method: 'HEAD',
      headersTimeout: CHECK_TIMEOUT_MS,
      bodyTimeout: CHECK_TIMEOUT_MS,
      signal: AbortSignal.timeout(CHECK_TIMEOUT_MS),
    })
    const answered = now()
    await body.dump()
    if (statusCode >= 500)
      yield createFinding('service', 'warning', `${host} answers, with ${statusCode}`, {
        todo: 'Ask the service, or try again later.',
      })
    else yield createFinding('service', 'ok', `${host} answers`)
    const tells = parseHttpDate(String(headers['date'] ?? ''))
    return tells === null ? null : { whose: 'the service', tells, resolutionMs: 1_000, asked, answered }
  } catch (error) {
    yield createFailedFinding('service', [
      {
        place: 'FILLRATE_BASE_URL',
        found: `${baseUrl}: ${describeNetworkError(error)}`,
        expected: 'a service that answers',
        todo: 'Correct the address, or look at your network and its proxy.',
      },
    ])
    return null
  } finally {
    await dispatcher?.destroy()
  }
}

/** The key is there. Whether the service takes it, only a call that is paid for would tell. */
export function checkApiKey({ apiKeys, auth }: Environment): Finding {
  if (apiKeys.length === 0) return unset('key', 'FILLRATE_API_KEY', 'a key of the enrichment service')
  return createFinding(
    'key',
    'ok',
    `${pluralize(apiKeys.length, 'key')}, sent as ${auth}; not tried, because a call would cost`,
  )
}

const unset = (name: string, variable: string, expected: string): Finding =>
  createFailedFinding(name, [
    {
      place: variable,
      found: 'not set',
      expected,
      todo: 'Set it in the environment or in a .env file in this folder.',
    },
  ])
