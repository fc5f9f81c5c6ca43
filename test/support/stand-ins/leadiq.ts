import type { CannedAnswer } from '../../../src/actions/service-cases.ts'
import { isKnownNumber, numberOf, type StandInOptions } from '../described-runs.ts'
import { playDescribed, type StandIn, type StatedWindow } from '../described-service.ts'

export const LEADIQ_KEY = 'bGVhZGlxLWtleTo='
/** 60 a minute for the key, made smaller. */
export const LEADIQ_LIMIT = '20 per 2 seconds'
const LEADIQ_WINDOW: StatedWindow = { calls: 20, ms: 2_000 }
/** Whatever goes wrong is a 200. */
const error = (status: number, message: string): CannedAnswer => ({
  body: { errors: [{ message, extensions: { response: { status } } }] },
})

interface Query {
  readonly query?: string
  readonly variables?: {
    readonly input?: {
      readonly email?: string
      readonly linkedinUrl?: string
      readonly fullName?: string
      readonly domain?: string
    }
  }
}

/** Every third person has no work email. */
const hasEmail = (n: number): boolean => n % 3 !== 0

/** LeadIQ: one GraphQL endpoint, all errors in a 200, billed by what the query selects and the person has. */
export const playLeadiq = (options: StandInOptions = {}): Promise<StandIn> =>
  playDescribed({
    ...options,
    windows: [LEADIQ_WINDOW],
    refuse: () => error(429, 'Too many requests'),
    ...(options.hasFaults === true && { faults: { inBody: () => error(500, 'Internal server error') } }),
    answer: ({ method, path, headers, body }, account) => {
      if (method !== 'POST' || path !== '/graphql') return { status: 404, body: 'not found' }
      if (headers.authorization !== `Basic ${LEADIQ_KEY}`) return error(401, 'Invalid API key')
      const { query = '', variables: { input = {} } = {} } = body as Query
      const isCompany = query.includes('searchCompany(input: $input)')
      const of = isCompany ? input.domain : (input.email ?? input.linkedinUrl ?? input.fullName)
      if (of === undefined || !/search(?:People|Company)\(input: \$input\)/.test(query))
        return { body: { errors: [{ message: 'no query', extensions: { code: 'MISSING_QUERY_STRING' } }] } }
      const n = numberOf(of.replace(/@.*/, ''))
      const found = (results: object[]): CannedAnswer => ({
        body: {
          data: {
            [isCompany ? 'searchCompany' : 'searchPeople']: { totalResults: results.length, results },
          },
        },
      })
      if (!isKnownNumber(n)) return found([])
      const emails = hasEmail(n)
        ? [
            { value: `old${n}@found.example`, type: 'WorkEmail', status: 'Invalid' },
            { value: `p${n}@found.example`, type: 'WorkEmail', status: 'Verified' },
          ]
        : []
      const price = isCompany ? 3 : emails.length > 0 && query.includes('emails {') ? 1.1 : 0.1
      if (!account.bill(of, price)) return error(402, 'Insufficient credits')
      if (isCompany) return found([{ id: `c${n}`, name: `Company ${n}`, industry: 'Machinery' }])
      const position = { title: `Analyst ${n}`, companyInfo: { name: 'Engines' }, emails }
      return found([
        { id: `p${n}`, name: { fullName: `Ada T${n}` }, confidence: 92, currentPositions: [position] },
      ])
    },
  })
