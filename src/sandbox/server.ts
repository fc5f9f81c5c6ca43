import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { authenticate } from './auth.ts'
import { type CallContext, handleCall } from './calls.ts'
import { type SandboxControls, answerControl } from './control.ts'
import { type JobOutcome, JobQueue } from './jobs.ts'
import { DEFAULT_OPTIONS, type SandboxOptions, validateOptions } from './options.ts'
import { findEndpoint, parseRequest } from './requests.ts'
import { errorResponse, readRequestBody, sendResponse } from './responses.ts'
import { StatsRecorder } from './stats.ts'

/** A running sandbox: the enrichment service on this machine. */
export interface Sandbox extends SandboxControls {
  /** Base URL, without a trailing slash. */
  readonly url: string
  readonly port: number
  readonly keys: readonly string[]
  readonly webhookSecret: string
  /** Resolves with the outcome when the job has ended; rejects for an unknown job. */
  delivered(jobId: string): Promise<JobOutcome>
  /** Delivers all pending jobs now, whatever their delay: for tests that control the order. */
  releaseJobs(): void
  /** Resolves when no job or delivery is pending. */
  idle(): Promise<void>
  /** Closes at once: connections are cut, pending jobs and deliveries never arrive. */
  close(): Promise<void>
}

/** Starts the sandbox. Rejects for an invalid option, or if it cannot listen. */
export async function startSandbox(given: Partial<SandboxOptions> = {}): Promise<Sandbox> {
  let options: SandboxOptions = { ...DEFAULT_OPTIONS, ...validateOptions(given) }
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
      if (path.startsWith('/_'))
        return sendResponse(response, answerControl(request, path, query, body, sandbox), DEFAULT_OPTIONS)
      if (endpoint === undefined) {
        recorder.request('other', 404)
        return sendResponse(response, errorResponse(404, 'no_such_endpoint', `there is no ${path}`), options)
      }
      const caller = authenticate(headers, query, options)
      if ('problem' in caller) {
        recorder.request(endpoint, 401)
        return sendResponse(response, errorResponse(401, 'unauthorized', caller.problem), options)
      }
      const question = parseRequest(endpoint, { method, contentType: headers['content-type'], query, body })
      void handleCall({ request, response, endpoint, question, key: caller.key }, context)
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
      const checked = validateOptions(changes)
      if (checked.host !== undefined || checked.port !== undefined)
        throw new Error('Sandbox option host and port cannot change while it runs. Start another.')
      options = { ...options, ...checked }
    },
    delivered: (jobId) => jobs.delivered(jobId),
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
