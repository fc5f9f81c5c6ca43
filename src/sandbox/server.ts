import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { errorResponse, readRequestBody, sendResponse } from './responses.ts'
import { authenticate } from './auth.ts'
import { handleCall } from './calls.ts'
import type { CallContext } from './call-decision.ts'
import { validateOptions } from './validate-options.ts'
import { handleControl } from './control.ts'
import type { SandboxControls } from './control.ts'
import { createJobQueue } from './jobs.ts'
import type { JobOutcome } from './jobs.ts'
import { DEFAULT_OPTIONS } from './options.ts'
import type { SandboxOptions } from './options.ts'
import { findEndpoint, parseRequest } from './requests.ts'
import type { SandboxEndpoint } from './requests.ts'
import { createStatsRecorder } from './stats.ts'
import type { SandboxStats } from './stats.ts'

/** A running sandbox: the enrichment service on this machine. */
export interface Sandbox {
  /** Base URL, without a trailing slash. */
  readonly url: string
  readonly port: number
  readonly settings: SandboxOptions
  readonly keys: readonly string[]
  readonly webhookSecret: string
  /** Counts since the start or the last reset; `inputs` adds the counts of every input. */
  stats(options?: { inputs?: boolean }): SandboxStats
  /** Clears the counts. Jobs, deliveries and open windows continue. */
  reset(): void
  /**
   * Changes options while the sandbox runs. Each replaces its former value, so `faults: {}` disables all.
   * @throws Error that names an invalid option
   */
  configure(options: Partial<SandboxOptions>): void
  /** Resolves with the outcome when the job has ended; rejects for an unknown job. */
  delivered(jobId: string): Promise<JobOutcome>
  /** Delivers all pending jobs now, whatever their delay: for tests that control the order. */
  releaseJobs(): void
  /** Resolves when no job or delivery is pending. */
  idle(): Promise<void>
  /** Closes at once: connections are cut, pending jobs and deliveries never arrive. */
  close(): Promise<void>
}

interface RequestTarget {
  readonly path: string
  readonly query: URLSearchParams | undefined
}

function parseTarget(url: string): RequestTarget {
  const mark = url.indexOf('?')
  if (mark === -1) return { path: url, query: undefined }
  return { path: url.slice(0, mark), query: new URLSearchParams(url.slice(mark + 1)) }
}

function handleEndpoint(
  endpoint: SandboxEndpoint,
  request: IncomingMessage,
  response: ServerResponse,
  query: URLSearchParams | undefined,
  context: CallContext,
): void {
  readRequestBody(request, (body) => {
    const options = context.settings()
    const caller = authenticate(request.headers, query, options)
    if ('problem' in caller) {
      context.recorder.request(endpoint, 401)
      return sendResponse(response, errorResponse(401, 'unauthorized', caller.problem), options)
    }
    const { method = '', headers } = request
    const question =
      body === undefined
        ? BODY_TOO_LARGE
        : parseRequest(endpoint, { method, contentType: headers['content-type'], query, body })
    void handleCall({ request, response, endpoint, question, key: caller.key }, context)
  })
}

const BODY_TOO_LARGE = {
  kind: 'problem',
  problem: { status: 400, code: 'unreadable_body', message: 'the body is larger than 1 MiB' },
  inputs: [],
} as const

/** Starts the sandbox. Rejects for an invalid option, or if it cannot listen. */
export async function startSandbox(given: Partial<SandboxOptions> = {}): Promise<Sandbox> {
  let options: SandboxOptions = { ...DEFAULT_OPTIONS, ...validateOptions(given) }
  const settings = () => options
  const recorder = createStatsRecorder()
  const jobs = createJobQueue(settings, recorder)
  const closing = new AbortController()
  const context: CallContext = { settings, recorder, jobs, windows: new Map(), closing: closing.signal }

  const controls: SandboxControls = {
    settings,
    configure: (changes) => {
      const checked = validateOptions(changes)
      if (checked.host !== undefined || checked.port !== undefined) {
        throw new Error('Sandbox option host and port cannot change while it runs. Start another.')
      }
      options = { ...options, ...checked }
    },
    stats: ({ inputs = false } = {}) => recorder.snapshot(jobs.pending(), inputs),
    reset: () => recorder.reset(),
  }

  const server = createServer({ keepAlive: true, noDelay: true }, (request, response) => {
    const { path, query } = parseTarget(request.url ?? '/')
    if (path.startsWith('/_')) return handleControl(request, response, path, query, controls)
    const endpoint = findEndpoint(path)
    if (endpoint !== undefined) return handleEndpoint(endpoint, request, response, query, context)
    request.resume()
    recorder.request('other', 404)
    sendResponse(response, errorResponse(404, 'no_such_endpoint', `there is no ${path}`), options)
  })
  // Longer than any client keeps a connection, so that the server never closes one just as a call starts.
  server.keepAliveTimeout = 120_000
  server.listen(options.port, options.host)
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : options.port
  const host = options.host.includes(':') ? `[${options.host}]` : options.host

  return {
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
    stats: controls.stats,
    reset: controls.reset,
    configure: controls.configure,
    delivered: jobs.delivered,
    releaseJobs: jobs.release,
    idle: jobs.idle,
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
