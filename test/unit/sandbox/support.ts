import { createServer } from 'node:http'
import type { IncomingHttpHeaders } from 'node:http'
import { request } from 'undici'
import { expect, onTestFinished } from 'vitest'
import type { SandboxOptions } from '../../../src/sandbox/options.ts'
import { startSandbox } from '../../../src/sandbox/server.ts'
import type { Sandbox } from '../../../src/sandbox/server.ts'
import { listenOnLoopback } from '../../support/loopback.ts'

/** A sandbox that closes when the test ends. It delivers jobs at once and retries failed deliveries soon. */
export async function sandboxWith(options: Partial<SandboxOptions> = {}): Promise<Sandbox> {
  const sandbox = await startSandbox({ keys: ['key-one'], jobDelayMs: 0, retryDelaysMs: [1, 1], ...options })
  onTestFinished(() => sandbox.close())
  return sandbox
}

/** Waits until no job is pending. */
export async function idle(sandbox: Sandbox): Promise<void> {
  await expect.poll(() => sandbox.stats().jobs.pending, { interval: 2, timeout: 30_000 }).toBe(0)
}

export interface Response {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** Parses the body as JSON. */
  readonly json: () => Record<string, unknown>
}

export interface CallOptions {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly body?: unknown
  /** Sent unchanged, instead of `body`. */
  readonly text?: string
  readonly headers?: Record<string, string>
  readonly signal?: AbortSignal
}

const bearer = { authorization: 'Bearer key-one' }

/** One call with a valid key, unless other headers are given. */
export async function call(sandbox: Sandbox, path: string, options: CallOptions = {}): Promise<Response> {
  const body = options.text ?? (options.body === undefined ? null : JSON.stringify(options.body))
  const {
    statusCode,
    headers,
    body: stream,
  } = await request(`${sandbox.url}${path}`, {
    method: options.method ?? (body === null ? 'GET' : 'POST'),
    headers: { ...(body !== null && { 'content-type': 'application/json' }), ...(options.headers ?? bearer) },
    body,
    ...(options.signal !== undefined && { signal: options.signal }),
  })
  const text = await stream.text()
  return { status: statusCode, headers, text, json: () => JSON.parse(text) as Record<string, unknown> }
}

export const person = (sandbox: Sandbox, email: string) =>
  call(sandbox, '/v1/person/enrich', { body: { email } })

export const company = (sandbox: Sandbox, domain: string) =>
  call(sandbox, `/v1/company/enrich?domain=${encodeURIComponent(domain)}`)

export const bulk = (sandbox: Sandbox, emails: readonly string[], webhookUrl: string) =>
  call(sandbox, '/v1/person/bulk', { body: { emails, webhook_url: webhookUrl } })

/** Submits a job and returns its identifier. */
export async function submit(
  sandbox: Sandbox,
  emails: readonly string[],
  webhookUrl: string,
): Promise<string> {
  const response = await bulk(sandbox, emails, webhookUrl)
  const { job_id: jobId } = response.json()
  if (response.status !== 202 || typeof jobId !== 'string') throw new Error(`not accepted: ${response.text}`)
  return jobId
}

interface Result {
  readonly request_id: string
  readonly data: Record<string, unknown> | null
}

export interface Received {
  readonly path: string
  readonly signature: string | undefined
  readonly contentType: string | undefined
  readonly body: Buffer
  readonly event: { event_id: string; job_id: string; status: string; results: Result[] }
}

export interface Receiver {
  readonly url: string
  readonly received: Received[]
}

/**
 * A webhook receiver that answers with the given status, or not at all for 'hang'. The callback gets the delivery and
 * how many came before it.
 */
export async function startReceiver(
  answer: (received: Received, before: number) => number | 'hang' | Promise<number> = () => 200,
): Promise<Receiver> {
  const received: Received[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    const signature = request.headers['x-webhook-signature']
    const one: Received = {
      path: request.url ?? '',
      signature: typeof signature === 'string' ? signature : undefined,
      contentType: request.headers['content-type'],
      body,
      event: JSON.parse(body.toString('utf8')) as Received['event'],
    }
    received.push(one)
    const status = await answer(one, received.length - 1)
    if (status !== 'hang') response.writeHead(status).end()
  })
  const { url, close } = await listenOnLoopback(server)
  onTestFinished(close)
  return { url: `${url}/hook`, received }
}

export const emailsFrom = (count: number, domain = 'acme.com'): string[] =>
  Array.from({ length: count }, (_, at) => `person.${at}@${domain}`)

/** What undici says when the connection was cut, or none could be made. */
export const connectionLost = /other side closed|socket|ECONNRESET|ECONNREFUSED/

/** 'answered' or 'cut', for a call that runs in the background. */
export const endOf = (response: Promise<Response>): Promise<'answered' | 'cut'> =>
  response.then(
    () => 'answered',
    () => 'cut',
  )
