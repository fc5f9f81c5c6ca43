import type { IncomingMessage, ServerResponse } from 'node:http'
import { errorResponse, readRequestBody, sendResponse } from './responses.ts'
import type { SandboxResponse } from './responses.ts'
import type { SandboxOptions } from './options.ts'
import type { SandboxStats } from './stats.ts'

/** What the paths under `/_` may read and change. */
export interface SandboxControls {
  readonly settings: () => SandboxOptions
  readonly configure: (options: unknown) => void
  readonly stats: (options?: { inputs?: boolean }) => SandboxStats
  readonly reset: () => void
}

/** Shows only the end of a secret, enough to tell two apart. */
const masked = (secret: string) => `…${secret.length > 8 ? secret.slice(-4) : ''}`

/** Settings with secrets masked; `plan` is a function, so only its presence is shown. */
function shownSettings(options: SandboxOptions): object {
  return {
    ...options,
    keys: options.keys.map(masked),
    webhookSecret: masked(options.webhookSecret),
    plan: options.plan === null ? null : 'a function',
  }
}

function changeSettings(
  contentType: string | undefined,
  body: Buffer | undefined,
  controls: SandboxControls,
): SandboxResponse {
  // A web page can post text to this machine without a preflight request, but not JSON.
  if (!/^application\/json\b/i.test(contentType ?? '')) {
    return errorResponse(400, 'unreadable_body', 'expected Content-Type: application/json')
  }
  try {
    controls.configure(JSON.parse(body?.toString('utf8') ?? ''))
    return { status: 200, body: shownSettings(controls.settings()) }
  } catch (error) {
    return errorResponse(400, 'wrong_settings', error instanceof Error ? error.message : String(error))
  }
}

/** Answers `/_stats`, `/_reset` and `/_settings`, which need no key and have no limit or faults. */
export function handleControl(
  request: IncomingMessage,
  response: ServerResponse,
  path: string,
  query: URLSearchParams | undefined,
  controls: SandboxControls,
): void {
  readRequestBody(request, (body) => {
    const respond = (answer: SandboxResponse) =>
      sendResponse(response, answer, { clockSkewMs: 0, dateHeader: true })
    switch (`${request.method} ${path}`) {
      case 'GET /_stats':
        return respond({ status: 200, body: controls.stats({ inputs: query?.get('inputs') === '1' }) })
      case 'POST /_reset':
        controls.reset()
        return respond({ status: 200, body: controls.stats() })
      case 'GET /_settings':
        return respond({ status: 200, body: shownSettings(controls.settings()) })
      case 'POST /_settings':
        return respond(changeSettings(request.headers['content-type'], body, controls))
      default:
        return respond(
          errorResponse(
            404,
            'no_such_endpoint',
            'there are GET /_stats, POST /_reset, GET and POST /_settings',
          ),
        )
    }
  })
}
