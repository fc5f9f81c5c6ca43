import type { IncomingMessage } from 'node:http'

/** A request as the service receives it. Header names are in lower case. */
export interface SentRequest {
  readonly method: string
  /** Without its query. */
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** Parsed, if it is JSON or a form: a repeated field is a list. */
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

/** Reads a request to a server that answers in the service's place. */
export async function readRequest(request: IncomingMessage): Promise<SentRequest> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const text = Buffer.concat(chunks).toString('utf8')
  const url = new URL(request.url ?? '/', 'http://127.0.0.1')
  return {
    method: request.method ?? '',
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    headers: request.headers,
    body: parseSentBody(text, request.headers['content-type'] === 'application/x-www-form-urlencoded'),
  }
}

/** A body as a case has it: of a form each field, which is a list if it is repeated. */
function parseSentBody(text: string, isForm: boolean): unknown {
  if (isForm) {
    const fields = new URLSearchParams(text)
    return Object.fromEntries(
      [...new Set(fields.keys())].map((name) => {
        const values = fields.getAll(name)
        return [name, values.length === 1 ? values[0] : values]
      }),
    )
  }
  try {
    return text === '' ? text : JSON.parse(text)
  } catch {
    // Compared as text.
    return text
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
