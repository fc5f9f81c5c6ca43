import type { IncomingMessage } from 'node:http'
import type { SandboxOptions } from './options.ts'
import { type SandboxResponse, errorResponse } from './responses.ts'
import type { SandboxStats } from './stats.ts'

/** What the paths under `/_` may read and change. */
export interface SandboxControls {
  readonly settings: SandboxOptions
  /** Counts since the start or the last reset; `inputs` adds the counts of every input. */
  stats(options?: { inputs?: boolean }): SandboxStats
  /** Clears the counts. Jobs, deliveries and open windows continue. */
  reset(): void
  /**
   * Changes options while the sandbox runs. Each replaces its former value, so `faults: {}` disables all.
   * @throws Error that names an invalid option
   */
  configure(options: Partial<SandboxOptions>): void
}

/** Shows only the end of a secret, enough to tell two apart. */
const masked = (secret: string) => `…${secret.length > 8 ? secret.slice(-4) : ''}`

/** Settings with secrets masked; `plan` is a function, so only its presence is shown. */
function showSettings({ settings }: SandboxControls): SandboxResponse {
  const { keys, webhookSecret, plan } = settings
  return {
    status: 200,
    body: {
      ...settings,
      keys: keys.map(masked),
      webhookSecret: masked(webhookSecret),
      plan: plan === null ? null : 'a function',
    },
  }
}

/** Answers `/_stats`, `/_reset` and `/_settings`, which need no key and have no limit or faults. */
export function answerControl(
  { method, headers }: IncomingMessage,
  path: string,
  query: URLSearchParams | undefined,
  body: Buffer | undefined,
  controls: SandboxControls,
): SandboxResponse {
  switch (`${method} ${path}`) {
    case 'GET /_stats':
      return { status: 200, body: controls.stats({ inputs: query?.get('inputs') === '1' }) }
    case 'POST /_reset':
      controls.reset()
      return { status: 200, body: controls.stats() }
    case 'GET /_settings':
      return showSettings(controls)
    case 'POST /_settings':
      // A web page can post text to this machine without a preflight request, but not JSON.
      if (!/^application\/json\b/i.test(headers['content-type'] ?? ''))
        return errorResponse(400, 'unreadable_body', 'expected Content-Type: application/json')
      try {
        controls.configure(JSON.parse(body?.toString('utf8') ?? '') as Partial<SandboxOptions>)
        return showSettings(controls)
      } catch (error) {
        return errorResponse(400, 'wrong_settings', error instanceof Error ? error.message : String(error))
      }
    default:
      return errorResponse(
        404,
        'no_such_endpoint',
        'there are GET /_stats, POST /_reset, GET and POST /_settings',
      )
  }
}
