import { type Dispatcher, request } from 'undici'
import { type ProxySettings, openDispatcher } from '../../service/dispatcher.ts'
import { networkErrorMeaning } from '../../util/network-errors.ts'

// Not in finding.ts: every command loads the findings, and loading undici takes a tenth of a second.

/** The timeout of network requests, in milliseconds. */
const CHECK_TIMEOUT_MS = 5_000

/** Sends one request, and reads its answer. */
export async function sendRequest(
  url: string,
  proxies: ProxySettings | undefined,
  options: Pick<Dispatcher.RequestOptions, 'method' | 'headers' | 'body'>,
): Promise<{ readonly status: number; readonly text: string }> {
  const dispatcher = openDispatcher(new URL(url).origin, proxies, {})
  try {
    const { statusCode, body } = await request(url, {
      dispatcher,
      ...options,
      headersTimeout: CHECK_TIMEOUT_MS,
      bodyTimeout: CHECK_TIMEOUT_MS,
      signal: AbortSignal.timeout(CHECK_TIMEOUT_MS),
    })
    return { status: statusCode, text: await body.text() }
  } finally {
    await dispatcher.destroy()
  }
}

/** The reason why a request failed, in words. */
export function describeNetworkError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code } = error as { code?: string }
  if (error.name === 'TimeoutError' || code === 'UND_ERR_HEADERS_TIMEOUT')
    return `no response within ${CHECK_TIMEOUT_MS / 1_000} s`
  const meaning = networkErrorMeaning(code ?? null)
  if (meaning === null) return code ?? error.message
  return code?.startsWith('UND_ERR') ? meaning : `${meaning} (${code})`
}
