import { request } from 'undici'
import type { Environment } from '../../config/environment.ts'
import { bulkOf } from '../../daemon/bulk.ts'
import { counted } from '../render/numbers.ts'
import { finding, wrongBecause, type Finding } from './finding.ts'

const TIMEOUT_MS = 5_000

/** Whether the service answers at all. One HEAD at its root, without the key: it costs nothing and tells nothing. */
export async function checkService({ baseUrl }: Environment): Promise<Finding> {
  if (baseUrl === null) return unset('service', 'FILLRATE_BASE_URL', 'the address of the enrichment service')
  const { host } = new URL(baseUrl)
  try {
    const { statusCode, body } = await request(baseUrl, {
      method: 'HEAD',
      headersTimeout: TIMEOUT_MS,
      bodyTimeout: TIMEOUT_MS,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    await body.dump()
    if (statusCode >= 500)
      return finding('service', 'notice', `${host} answers, with ${statusCode}`, {
        todo: 'Ask the service, or try again later.',
      })
    return finding('service', 'ok', `${host} answers`)
  } catch (error) {
    return wrongBecause('service', [
      {
        place: 'FILLRATE_BASE_URL',
        found: `${baseUrl}: ${reasonOf(error)}`,
        expected: 'a service that answers',
        todo: 'Correct the address, or look at your network and its proxy.',
      },
    ])
  }
}

/** The key is there. Whether the service takes it, only a call that is paid for would tell. */
export function checkKey({ apiKeys, auth }: Environment): Finding {
  if (apiKeys.length === 0) return unset('key', 'FILLRATE_API_KEY', 'a key of the enrichment service')
  return finding(
    'key',
    'ok',
    `${counted(apiKeys.length, 'key')}, sent as ${auth}; not tried, because a call would cost`,
  )
}

/** Whether lookups can go in bulk. Off is a choice, so it is no error. */
export function checkBulk(environment: Environment): Finding {
  const bulk = bulkOf(environment)
  if (!bulk.possible)
    return finding('bulk', 'notice', `off: ${bulk.why}`, {
      todo: bulk.todo === null ? null : `To have it, ${bulk.todo}.`,
    })
  const secrets = counted(environment.webhookSecrets.length, 'webhook secret')
  const where = environment.publicUrl ?? 'this machine'
  return finding('bulk', 'ok', `on: deliveries come to ${where}, ${secrets}`)
}

const unset = (name: string, variable: string, expected: string): Finding =>
  wrongBecause(name, [
    {
      place: variable,
      found: 'not set',
      expected,
      todo: 'Set it in the environment or in a .env file in this folder.',
    },
  ])

const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there (ECONNREFUSED)',
  ENOTFOUND: 'there is no such host (ENOTFOUND)',
  EAI_AGAIN: 'the host could not be looked up (EAI_AGAIN)',
  UND_ERR_CONNECT_TIMEOUT: 'it does not answer',
  ECONNRESET: 'it closed the connection (ECONNRESET)',
  UND_ERR_SOCKET: 'it closed the connection',
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code } = error as { code?: string }
  if (error.name === 'TimeoutError' || code === 'UND_ERR_HEADERS_TIMEOUT')
    return `no answer within ${TIMEOUT_MS / 1_000} s`
  return WORDS[code ?? ''] ?? code ?? error.message
}
