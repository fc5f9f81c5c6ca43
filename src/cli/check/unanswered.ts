/** What is asked over the network has to answer within this, in milliseconds. */
export const TIMEOUT_MS = 5_000

const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there (ECONNREFUSED)',
  ENOTFOUND: 'there is no such host (ENOTFOUND)',
  EAI_AGAIN: 'the host could not be looked up (EAI_AGAIN)',
  UND_ERR_CONNECT_TIMEOUT: 'it does not answer',
  ECONNRESET: 'it closed the connection (ECONNRESET)',
  UND_ERR_SOCKET: 'it closed the connection',
}

/** Why there was no answer, in words. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code } = error as { code?: string }
  if (error.name === 'TimeoutError' || code === 'UND_ERR_HEADERS_TIMEOUT')
    return `no answer within ${TIMEOUT_MS / 1_000} s`
  return WORDS[code ?? ''] ?? code ?? error.message
}
