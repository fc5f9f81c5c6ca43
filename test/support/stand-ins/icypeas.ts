import { isKnownNumber, numberOf, type StandInOptions } from '../described-runs.ts'
import { type Account, playDescribed, type StandIn, type StatedWindow } from '../described-service.ts'

export const ICYPEAS_KEY = 'icypeas-key'
/** Searches have a limit by the second. */
const SEARCHES: StatedWindow = { calls: 10, ms: 1_000, endpoint: 'POST /email-search' }
/** Reads have one by the minute, made smaller. */
export const ICYPEAS_READS: StatedWindow = {
  calls: 30,
  ms: 2_000,
  endpoint: 'POST /bulk-single-searchs/read',
}
export const ICYPEAS_LIMIT = ['10 per second', '30 per 2 seconds']
const LOOKUPS: readonly StatedWindow[] = [
  { calls: 20, ms: 1_000, endpoint: 'POST /reverse-email-lookup' },
  { calls: 15, ms: 1_000, endpoint: 'POST /reverse-email-lookups' },
]
/** From a search to its end, in milliseconds. */
const SEARCHED_MS = 300

interface Search {
  readonly input: string
  readonly endsAt: number
  status: string
}

/**
 * Icypeas: jobs of one whose reads have a limit of their own, and lookups of many emails whose results name none. What a search
 * comes to is decided when it ends: without credits its state says so, and stays.
 */
export function playIcypeas({ hasFaults = false, ...options }: StandInOptions = {}): Promise<StandIn> {
  const searches: Search[] = []

  function readSearch(id: string, account: Account): object | null {
    const search = searches[Number(id.slice('s-'.length)) - 1]
    if (search === undefined) return null
    const n = numberOf(search.input)
    if (search.status === 'IN_PROGRESS' && performance.now() >= search.endsAt)
      search.status = statusOf(search.input, account, 'DEBITED')
    const emails =
      search.status === 'DEBITED' ? [{ email: `p${n}@found.example`, certainty: 'very_sure' }] : []
    return { _id: id, status: search.status, order: 0, results: { emails, phones: [] } }
  }

  const lookUp = (email: string, account: Account): object => {
    const status = statusOf(email, account, 'FOUND')
    const result = status === 'FOUND' ? `https://www.linkedin.com/in/found-${numberOf(email)}` : ''
    return { searchId: `R${numberOf(email)}`, status, result }
  }

  return playDescribed({
    ...options,
    windows: [SEARCHES, ICYPEAS_READS, ...LOOKUPS],
    refuse: () => ({ status: 429, body: 'You have exceeded the max number of requests per minute.' }),
    ...(hasFaults && { faults: { inBody: () => ({ body: { success: false } }) } }),
    answer: ({ path, headers, body }, account) => {
      if (headers.authorization !== ICYPEAS_KEY) return { status: 401, body: 'Unauthorized access.' }
      const sent = body as Record<'firstname' | 'lastname' | 'domainOrCompany' | 'id' | 'email', string> & {
        data: string[]
      }
      switch (path) {
        case '/email-search': {
          const input = `${sent.domainOrCompany} ${sent.firstname} ${sent.lastname}`
          searches.push({ input, endsAt: performance.now() + SEARCHED_MS, status: 'IN_PROGRESS' })
          return { body: { success: true, item: { _id: `s-${searches.length}`, status: 'NONE' } } }
        }
        case '/bulk-single-searchs/read': {
          const item = readSearch(sent.id, account)
          return {
            body:
              item === null
                ? { success: false, error: 'SearchNotFoundError' }
                : { success: true, items: [item] },
          }
        }
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

function statusOf(input: string, account: Account, found: string): string {
  if (!isKnownNumber(numberOf(input))) return 'NOT_FOUND'
  return account.bill(input, 1) ? found : 'INSUFFICIENT_FUNDS'
}
