import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Rng } from './rng.ts'

/** A response with a JSON value, or with text sent as it is. */
export interface SandboxResponse {
  readonly status: number
  readonly body: object | string
  readonly headers?: Readonly<Record<string, string>>
}

/** Every error has this body; service-interface.md does not show its shape (Errors 3). */
export function errorResponse(status: number, code: string, message: string, headers = {}): SandboxResponse {
  return { status, body: { error: { code, message } }, headers }
}

const MALFORMED_RECORDS = [
  '<!doctype html><title>Service</title><h1>It works</h1>',
  '',
  'null',
  '[]',
  '{}',
  '{"success":false}',
  '{"id":"per_1","name":{"full":"Ann',
  '{"id":"per_1","name":"Ann Berg","confidence":"high"}',
  '{"id":7}',
] as const

/** A 200 whose body is not a record of a person or a company. */
export const malformedRecord = (rng: Rng): SandboxResponse => ({
  status: 200,
  body: rng.pick(MALFORMED_RECORDS),
})

export function sendResponse(response: ServerResponse, { status, body, headers }: SandboxResponse): void {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const ownHeaders = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }
  response.writeHead(status, { ...ownHeaders, ...headers }).end(text)
}

/** The largest body that is read; a bulk call of 100 emails is under 40 kB. */
const MAX_REQUEST_BYTES = 1024 * 1024

/** Calls `done` with the body, or with undefined if it is too large. An aborted request never calls it. */
export function readRequestBody(request: IncomingMessage, done: (body: Buffer | undefined) => void): void {
  const chunks: Buffer[] = []
  let size = 0
  request.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= MAX_REQUEST_BYTES) chunks.push(chunk)
  })
  request.on('end', () => {
    const [only = Buffer.alloc(0)] = chunks
    if (size > MAX_REQUEST_BYTES) done(undefined)
    else done(chunks.length > 1 ? Buffer.concat(chunks) : only)
  })
  // Without a listener, a client that disconnects during its body would end this process.
  request.on('error', () => undefined)
}
