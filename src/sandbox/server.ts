import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type CallContext, handleCall } from './calls.ts'
import { JobQueue } from './jobs.ts'
import { DEFAULT_OPTIONS, type SandboxOptions } from './options.ts'
import { findEndpoint, parseRequest, readKey } from './requests.ts'
import { errorResponse, readRequestBody, sendResponse } from './responses.ts'
import { type SandboxStats, StatsRecorder } from './stats.ts'

/** A running sandbox: the enrichment service on this machine. */
export interface Sandbox {
  /** Base URL, without a trailing slash. */
  readonly url: string
  readonly port: number
  readonly keys: readonly string[]
  readonly webhookSecret: string
  readonly settings: SandboxOptions
  /** Counts since the start or the last reset; `inputs` adds the counts of every input. */
  stats(options?: { inputs?: boolean }): SandboxStats
  /** Clears the counts. Jobs, deliveries and open windows continue. */
  reset(): void
  /** Changes options while the sandbox runs. Each replaces its former value, so `faults: {}` disables all. */
  configure(options: Partial<Omit<SandboxOptions, 'host' | 'port'>>): void
  /** Delivers all pending jobs now, whatever their delay: for tests that control the order. */
  releaseJobs(): void
  /** Resolves when no job or delivery is pending. */
  idle(): Promise<void>
  /** Closes at once: connections are cut, pending jobs and deliveries never arrive. */
  close(): Promise<void>
}

/** Starts the sandbox. Rejects if it cannot listen. */
export async function startSandbox(given: Partial<SandboxOptions> = {}): Promise<Sandbox> {
  let options: SandboxOptions = { ...DEFAULT_OPTIONS, ...given }
  const settings = () => options
  const recorder = new StatsRecorder()
  const jobs = new JobQueue(settings, recorder)
  const closing = new AbortController()
  const context: CallContext = { settings, recorder, jobs, windows: new Map(), closing: closing.signal }

  const server = createServer({ keepAlive: true, noDelay: true }, (request, response) => {
    const { method = '', headers, url = '/' } = request
    const [, path = '', search] = /^([^?]*)(?:\?(.*))?$/s.exec(url) ?? []
    const query = search === undefined ? undefined : new URLSearchParams(search)
    const endpoint = findEndpoint(path)
    readRequestBody(request, (body) => {
      if (path === '/_stats')
        return sendResponse(response, {
          status: 200,
          body: sandbox.stats({ inputs: query?.get('inputs') === '1' }),
        })
      if (endpoint === undefined) {
        recorder.request('other', 404)
        return sendResponse(response, errorResponse(404, 'no_such_endpoint', `there is no ${path}`))
      }
      const key = readKey(headers, query)
      if (key === null || !options.keys.includes(key)) {
        recorder.request(endpoint, 401)
        const problem = key === null ? 'no API key' : 'the API key is not valid'
        return sendResponse(response, errorResponse(401, 'unauthorized', problem))
      }
      const question = parseRequest(endpoint, { method, contentType: headers['content-type'], query, body })
      void handleCall({ request, response, endpoint, question, key }, context)
    })
  })
  // Longer than any client keeps a connection, so that the server never closes one just as a call starts.
  server.keepAliveTimeout = 120_000
  server.listen(options.port, options.host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const host = options.host.includes(':') ? `[${options.host}]` : options.host

  const sandbox: Sandbox = {
    url: `http://${host}:${port}`,
    port,
    get settings() {
      return options
    },
    get keys() {
      return options.keys
    },
    get webhookSecret() {
      return options.webhookSecret
    },
    stats: ({ inputs = false } = {}) => recorder.snapshot(jobs.pending, inputs),
    reset: () => recorder.reset(),
    configure: (changes) => {
      options = { ...options, ...changes }
    },
    releaseJobs: () => jobs.release(),
    idle: () => jobs.idle(),
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
  return sandbox
}
