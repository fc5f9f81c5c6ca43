import type { IncomingMessage } from 'node:http'

/** A request as the service receives it. Header names are in lower case. */
export interface SentRequest {
  readonly method: string
  /** Without its query. */
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** Parsed, if it is JSON. */
  readonly body: unknown
}

/** What a service answers. */
export interface CannedAnswer {
  /** Default: 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON; a text is sent as it is. */
  readonly body?: unknown
}

/** Reads a request to a stand-in of a service. */
export async function readRequest(request: IncomingMessage): Promise<SentRequest> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const text = Buffer.concat(chunks).toString('utf8')
  const url = new URL(request.url ?? '/', 'http://127.0.0.1')
  let body: unknown = text
  try {
    if (text !== '') body = JSON.parse(text)
  } catch {
    // Not JSON: compared as text.
  }
  return {
    method: request.method ?? '',
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    headers: request.headers,
    body,
  }
}

/** Answers as a case says. */
export function writeCaseAnswer(
  response: {
    writeHead(status: number, headers: Record<string, string>): unknown
    end(body: string): unknown
  },
  answer: CannedAnswer,
): void {
  const { status = 200, headers = {}, body } = answer
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(typeof body === 'string' ? body : JSON.stringify(body ?? null))
}
