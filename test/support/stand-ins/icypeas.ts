import { isKnownNumber, numberOf, type StandInOptions } from '../described-runs.ts'
import { type Account, playDescribed, type StandIn, type StatedWindow } from '../described-service.ts'

export const ICYPEAS_KEY = 'icypeas-key'
/** Searches have a limit by the second. */
const SEARCHES: StatedWindow = { calls: 10, ms: 1_000, endpoint: 'POST /email-search' }
const BULK_SEARCHES: StatedWindow = { calls: 1, ms: 1_000, endpoint: 'POST /bulk-search' }
/** Reads have one by the minute, made smaller. */
export const ICYPEAS_READS: StatedWindow = {
  calls: 30,
  ms: 2_000,
  endpoint: 'POST /bulk-single-searchs/read',
}
/** The three as a description states them. */
export const ICYPEAS_LIMIT = { person: '10 per second', bulk: '1 per second', poll: '30 per 2 seconds' }
const LOOKUPS: readonly StatedWindow[] = [
  { calls: 20, ms: 1_000, endpoint: 'POST /reverse-email-lookup' },
  { calls: 15, ms: 1_000, endpoint: 'POST /reverse-email-lookups' },
]
/** From a search to its end, in milliseconds. */
const SEARCHED_MS = 300

interface Search {
  readonly input: string
  /** Its place in its file. */
  readonly order: number
  readonly endsAt: number
  status: string
}

/**
 * Icypeas: searches, single ones and files, whose reads have a limit of their own, and lookups of many emails whose results name none.
 * The rows of a file come in pages. What a search comes to is decided when it ends: without credits its state says so, and
 * stays.
 */
export function playIcypeas({ hasFaults = false, ...options }: StandInOptions = {}): Promise<StandIn> {
  /** By the identifier of a search, or of a file. */
  const files = new Map<string, readonly Search[]>()

  function open(prefix: string, inputs: readonly string[]): string {
    const id = `${prefix}-${files.size + 1}`
    const endsAt = performance.now() + SEARCHED_MS
    files.set(
      id,
      inputs.map((input, order) => ({ input, order, endsAt, status: 'IN_PROGRESS' })),
    )
    return id
  }

  function readSearch(search: Search, account: Account): object {
    const n = numberOf(search.input)
    if (search.status === 'IN_PROGRESS' && performance.now() >= search.endsAt)
      search.status = statusOf(search.input, account, 'DEBITED')
    const emails =
      search.status === 'DEBITED' ? [{ email: `p${n}@found.example`, certainty: 'very_sure' }] : []
    return { status: search.status, order: search.order, results: { emails, phones: [] } }
  }

  function readRows({ id, file, limit = 10, sorts }: SentRead, account: Account): object {
    const rows = files.get(id ?? file ?? '')
    if (rows === undefined) return { success: false, error: 'SearchNotFoundError' }
    const from = sorts === undefined ? 0 : sorts[0] + 1
    const page = rows.slice(from, from + Math.min(limit, 100))
    return {
      success: true,
      items: page.map((search) => readSearch(search, account)),
      total: rows.length,
      sorts: page.map(({ order }) => [order, 'x']),
    }
  }

  const lookUp = (email: string, account: Account): object => {
    const status = statusOf(email, account, 'FOUND')
    const result = status === 'FOUND' ? `https://www.linkedin.com/in/found-${numberOf(email)}` : ''
    return { searchId: `R${numberOf(email)}`, status, result }
  }

  return playDescribed({
    ...options,
    windows: [SEARCHES, BULK_SEARCHES, ICYPEAS_READS, ...LOOKUPS],
    refuse: () => ({ status: 429, body: 'You have exceeded the max number of requests per minute.' }),
    ...(hasFaults && { faults: { inBody: () => ({ body: { success: false } }) } }),
    answer: ({ path, headers, body }, account) => {
      if (headers.authorization !== ICYPEAS_KEY) return { status: 401, body: 'Unauthorized access.' }
      const sent = body as Record<'firstname' | 'lastname' | 'domainOrCompany' | 'email', string> & {
        data: string[]
      }
      switch (path) {
        case '/email-search': {
          const id = open('s', [`${sent.domainOrCompany} ${sent.firstname} ${sent.lastname}`])
          return { body: { success: true, item: { _id: id, status: 'NONE' } } }
        }
        case '/bulk-search': {
          const { data } = body as { data: readonly (readonly string[])[] }
          const file = open(
            'f',
            data.map(([first, last, company]) => `${company} ${first} ${last}`),
          )
          return { body: { success: true, status: 'in_progress', file } }
        }
        case '/bulk-single-searchs/read':
          return { body: readRows(body as SentRead, account) }
        case '/reverse-email-lookup':
          return { body: { success: true, data: lookUp(sent.email, account) } }
        case '/reverse-email-lookups':
          return sent.data.length < 2 || sent.data.length > 50
            ? { body: { success: false, validationErrors: [{ field: 'data', type: 'length' }] } }
            : { body: { success: true, data: sent.data.map((email) => lookUp(email, account)) } }
        default:
          return { status: 404, body: { success: false } }
      }
    },
  })
}

interface SentRead {
  readonly id?: string
  readonly file?: string
  readonly limit?: number
  /** The last one of the page before. */
  readonly sorts?: readonly [number, string]
}

function statusOf(input: string, account: Account, found: string): string {
  if (!isKnownNumber(numberOf(input))) return 'NOT_FOUND'
  return account.bill(input, 1) ? found : 'INSUFFICIENT_FUNDS'
}
