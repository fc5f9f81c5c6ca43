import type { CannedAnswer } from '../../../src/actions/service-cases.ts'
import { isKnownNumber, numberOf, type StandInOptions } from '../described-runs.ts'
import { playDescribed, type StandIn, type StatedWindow } from '../described-service.ts'

export const HUNTER_KEY = 'hunter-key'
/** 15 a second and 500 a minute, for each endpoint, made smaller. */
export const HUNTER_LIMIT = ['20 per second', '30 per 3 seconds']
const windowsOf = (endpoint: string): StatedWindow[] => [
  { calls: 20, ms: 1_000, endpoint },
  { calls: 30, ms: 3_000, endpoint },
]
const HUNTER_WINDOWS = [...windowsOf('person'), ...windowsOf('company')]

const error = (status: number, id: string, details: string): CannedAnswer => ({
  status,
  body: { errors: [{ id, code: status, details }] },
})

/** This person asked not to be processed. */
export const HUNTER_REJECTED = 5

/** Hunter: 403 above the limit, 429 without credits, for each endpoint windows of its own, no headers. It bills a repetition, too. */
export const playHunter = (options: StandInOptions = {}): Promise<StandIn> =>
  playDescribed({
    ...options,
    windows: HUNTER_WINDOWS,
    endpointOf: ({ path }) => (path === '/v2/companies/find' ? 'company' : 'person'),
    refuse: () => error(403, 'too_many_requests', 'You have reached the rate limit'),
    ...(options.hasFaults === true && {
      faults: { inBody: () => ({ ...error(500, 'internal', 'An error occurred'), status: 200 }) },
    }),
    answer: ({ method, path, query, headers }, account) => {
      if (headers['x-api-key'] !== HUNTER_KEY)
        return error(401, 'authentication_failed', 'No valid API key was provided')
      if (method !== 'GET') return error(404, 'not_found', "The requested resource couldn't be found.")
      const input =
        query['linkedin_handle'] ??
        query['full_name'] ??
        (path === '/v2/companies/find' ? query['domain'] : undefined)
      if (input === undefined) return error(400, 'wrong_params', 'You are missing the domain parameter')
      const n = numberOf(input)
      const meta = { params: query }
      if (path === '/v2/companies/find') {
        if (!isKnownNumber(n)) return error(404, 'not_found', "The requested resource couldn't be found.")
        if (!account.bill(input, 1)) return error(429, 'usage', 'You have reached your usage limit.')
        return { body: { data: { name: `Company ${n}`, domain: input, tags: [] }, meta } }
      }
      if (n === HUNTER_REJECTED) return error(451, 'claimed_email', 'The person asked not to be processed')
      const person = { first_name: 'Ada', last_name: `T${n}`, position: `Analyst ${n}`, sources: [] }
      if (!isKnownNumber(n)) return { body: { data: { ...person, email: null, score: null }, meta } }
      if (!account.bill(input, 1)) return error(429, 'usage', 'You have reached your usage limit.')
      return { body: { data: { ...person, email: `p${n}@found.example`, score: 97 }, meta } }
    },
  })
