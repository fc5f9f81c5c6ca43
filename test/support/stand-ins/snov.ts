import type { CannedAnswer } from '../../../src/actions/service-cases.ts'
import { isKnownNumber, numberOf, type StandInOptions } from '../described-runs.ts'
import { playDescribed, type StandIn, type StatedWindow } from '../described-service.ts'

export const SNOV_CLIENT = 'snov-user:snov-secret'
/** 60 a minute for the account, made smaller. */
export const SNOV_LIMIT = '20 per 2 seconds'
const SNOV_WINDOW: StatedWindow = { calls: 20, ms: 2_000 }

const TOKEN_PATH = '/v1/oauth/access_token'
const FORM = 'application/x-www-form-urlencoded'

interface Task {
  readonly name: string
  polls: number
  readonly isPaid: boolean
}

interface Snov extends StandIn {
  /** Tokens that were issued, and calls with one that had ended. */
  readonly tokens: { issued: number; ended: number }
}

/** One of five has two emails, of which both are charged. */
const hasTwoEmails = (n: number): boolean => n % 5 === 1

/**
 * Snov.io: a client with tokens that end, a form for a profile, and tasks of the finder, which are polled. The limit is the
 * account's, not a token's, and polls count. A task that lacked credits when it was started never gets any.
 */
export async function playSnov({ tokenSeconds = 3_600, ...options }: SnovOptions = {}): Promise<Snov> {
  const tokens = { issued: 0, ended: 0 }
  const validUntil = new Map<string, number>()
  const tasks = new Map<string, Task>()

  const issue = (body: unknown): CannedAnswer => {
    const {
      grant_type: grant,
      client_id: id,
      client_secret: secret,
    } = body as Readonly<Record<string, string>>
    if (grant !== 'client_credentials' || `${id}:${secret}` !== SNOV_CLIENT)
      return { status: 401, body: { error: 'invalid_client' } }
    const token = `token-${++tokens.issued}`
    validUntil.set(token, performance.now() + tokenSeconds * 1_000)
    return { body: { access_token: token, token_type: 'Bearer', expires_in: tokenSeconds } }
  }

  const standIn = await playDescribed({
    ...options,
    windows: [SNOV_WINDOW],
    endpointOf: ({ method, path }) => (path === TOKEN_PATH ? null : `${method} ${path}`),
    ...(options.hasFaults === true && {
      faults: {
        inBody: ({ path }) =>
          path.startsWith('/v1/') ? { body: { success: false, errors: ['Server error'] } } : { body: {} },
      },
    }),
    answer: ({ path, query, headers, body }, account) => {
      if (path === TOKEN_PATH) return issue(body)
      const token = String(headers.authorization).replace(/^Bearer /, '')
      if ((validUntil.get(token) ?? 0) < performance.now()) {
        tokens.ended++
        return { status: 401, body: { success: false, message: 'token expired' } }
      }
      if (path === '/v1/get-profile-by-email') {
        if (headers['content-type'] !== FORM)
          return { status: 400, body: { success: false, errors: ['form'] } }
        const { email = '' } = body as { email?: string }
        const n = numberOf(email.replace(/@.*/, ''))
        if (!isKnownNumber(n)) return { body: { success: false } }
        if (!account.bill(email, 1)) return { status: 402, body: { success: false } }
        const job = { companyName: 'Engines', position: `Analyst ${n}` }
        return { body: { success: true, id: n, firstName: 'Ada', currentJobs: [job], social: [] } }
      }
      if (path === '/v2/emails-by-domain-by-name/start') {
        const [row] = (body as { rows: { first_name: string; last_name: string; domain: string }[] }).rows
        const name = `${row?.first_name} ${row?.last_name}`
        const hash = `hash-${tasks.size + 1}`
        const n = numberOf(name)
        const isPaid = account.bill(name, isKnownNumber(n) ? (hasTwoEmails(n) ? 2 : 1) : 0)
        tasks.set(hash, { name, polls: 0, isPaid })
        return { body: { data: { task_hash: hash } } }
      }
      const task = tasks.get(query['task_hash'] ?? '')
      if (path !== '/v2/emails-by-domain-by-name/result' || task === undefined)
        return {
          status: 404,
          body: { errors: { code: 404, title: 'Sorry, but url or entity not found', source: '' } },
        }
      if (task.polls++ === 0) return { body: { status: 'in_progress', data: [] } }
      if (!task.isPaid) return { body: { status: 'not_enough_credits' } }
      const n = numberOf(task.name)
      const result = isKnownNumber(n)
        ? [
            { email: `x${n}@found.example`, smtp_status: 'not_valid', is_valid_format: true },
            ...(hasTwoEmails(n) ? [{ email: `y${n}@found.example`, smtp_status: 'unknown' }] : []),
            { email: `p${n}@found.example`, smtp_status: 'valid', is_valid_format: true },
          ]
        : []
      // A person without an email is left out, or has none.
      const rows = result.length === 0 && n % 8 === 0 ? [] : [{ people: task.name, result }]
      return { body: { status: 'completed', data: rows } }
    },
  })
  return { ...standIn, tokens }
}

interface SnovOptions extends StandInOptions {
  /** How long a token lives. Default: an hour, as documented. */
  readonly tokenSeconds?: number
}
