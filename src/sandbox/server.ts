import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { type CallContext, errorResponse, handleCall, sendResponse } from './calls.ts'
import { JobQueue } from './jobs.ts'
import { DEFAULT_OPTIONS, type SandboxOptions } from './options.ts'
import { findEndpoint, parseRequest } from './requests.ts'
import { type SandboxStats, StatsRecorder } from './stats.ts'
import { RateLimit } from './windows.ts'

/** A running sandbox: the enrichment service on this machine. */
export interface Sandbox {
  /** Base URL, without a trailing slash. */
  readonly url: string
  readonly port: number
  readonly keys: readonly string[]
  readonly webhookSecret: string
  /** Counts since the start or the last reset; `inputs` adds the counts of every input. */
  stats(options?: { inputs?: boolean }): SandboxStats
  /** Clears the counts. Jobs, deliveries and windows continue. */
  reset(): void
  /** Changes options while the sandbox runs. Each replaces its former value, so `faults: {}` disables all. */
  configure(options: Partial<Omit<SandboxOptions, 'port'>>): void
  /** Delivers all pending jobs now, whatever their delay: for tests that control the order. */
  releaseJobs(): void
  /** Closes at once: connections are cut, pending jobs and deliveries never arrive. */
  close(): Promise<void>
}

/** Starts the sandbox. Rejects if it cannot listen. */
export async function startSandbox(given: Partial<SandboxOptions> = {}): Promise<Sandbox> {
  let options: SandboxOptions = { ...DEFAULT_OPTIONS, ...given }
  const settings = () => options
  const recorder = new StatsRecorder()
  const rateLimit = new RateLimit()
  const jobs = new JobQueue(settings, recorder)
  const closing = new AbortController()
  const context: CallContext = { settings, recorder, jobs, rateLimit, closing: closing.signal }
  const stats: Sandbox['stats'] = ({ inputs = false } = {}) =>
    recorder.snapshot(jobs.pending, rateLimit, inputs)

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request)
    const { method = '', headers, url = '/' } = request
    const [path = '', search = ''] = url.split('?')
    if (path === '/_stats') return sendResponse(response, { status: 200, body: stats() })
    const endpoint = findEndpoint(method, path)
    if (endpoint === undefined)
      return sendResponse(response, errorResponse(404, 'no_such_endpoint', `there is no ${method} ${path}`))
    const key = /^Bearer +(.*)$/i.exec(headers.authorization ?? '')?.[1]
    if (key === undefined || !options.keys.includes(key)) {
      recorder.request(endpoint, 401)
      return sendResponse(response, errorResponse(401, 'unauthorized', 'the API key is missing or not valid'))
    }
    const question = parseRequest(endpoint, new URLSearchParams(search), body)
    await handleCall({ request, response, endpoint, question, key }, context)
  }

  // A client that disconnects during its body gets no answer.
  const server = createServer({ keepAlive: true, noDelay: true }, (request, response) =>
    answer(request, response).catch(() => response.destroy()),
  )
  // Longer than any client keeps a connection, so that the server never closes one just as a call starts.
  server.keepAliveTimeout = 120_000
  server.listen(options.port, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  return {
    url: `http://127.0.0.1:${port}`,
    port,
    get keys() {
      return options.keys
    },
    get webhookSecret() {
      return options.webhookSecret
    },
    stats,
    reset: () => {
      recorder.reset()
      rateLimit.windows.length = 0
    },
    configure: (changes) => {
      options = { ...options, ...changes }
    },
    releaseJobs: () => jobs.release(),
    close: async () => {
      if (closing.signal.aborted) return
      closing.abort()
      jobs.close()
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}
