import type { CannedAnswer } from '../../../src/actions/service-cases.ts'
import { isKnownNumber, numberOf, type StandInOptions } from '../described-runs.ts'
import { type Account, playDescribed, type StandIn } from '../described-service.ts'
import { createWindow } from './stated-window.ts'

export const PROSPEO_KEY = 'prospeo-key'
/** A minute of a plan, made smaller. */
const MINUTE = createWindow(40, 2_000)

/** An address that it does not take. */
export const isInvalid = (n: number): boolean => n % 50 === 13

/** Of an input's own fields; the identifier is ours. */
interface Details {
  readonly identifier?: string
  readonly email?: string
  readonly linkedin_url?: string
  readonly full_name?: string
  readonly company_name?: string
  readonly company_website?: string
}

/** What a request is about, and whether it is found. */
function readDetails({ identifier, ...details }: Details) {
  const { email, linkedin_url, full_name, company_name = '', company_website = '' } = details
  const known = email ?? linkedin_url ?? full_name ?? company_website
  const input = known === full_name ? [full_name, company_name, company_website].join('|') : known
  const n = numberOf(known)
  return { identifier, input, n, isInvalid: isInvalid(n), isFound: isKnownNumber(n) }
}

const failed = (error_code: string, status = 400): CannedAnswer => ({
  status,
  body: { error: true, error_code },
})

/** What is not paid is masked. */
const toMatch = (n: number): object => ({
  person: {
    person_id: `p${n}`,
    current_job_title: `Analyst ${n}`,
    email: { status: 'VERIFIED', revealed: true, email: `work${n}@found.example` },
    mobile: { status: 'VERIFIED', revealed: false, mobile: '+1 415-3**-****' },
  },
  company: { company_id: `c${n}`, name: `Company ${n}`, industry: `Industry ${n}` },
})

/**
 * Prospeo: a miss, an input that it does not take and an account without credits are a 400 with a code, and so is an error of its own;
 * the same person again is free; headers state a minute and a day.
 */
export async function playProspeo({ hasFaults = false, ...options }: StandInOptions = {}): Promise<StandIn> {
  const paid = new Set<string>()
  /** What inputs cost in all; null: the account has too few credits, and none is billed. */
  function bill(account: Account, inputs: readonly string[]): number | null {
    const open = inputs.filter((input) => !paid.has(input))
    if (open.length > account.balance()) return null
    for (const input of open) {
      account.bill(input, 1)
      paid.add(input)
    }
    return open.length
  }

  function answerOne(account: Account, details: Details): CannedAnswer {
    const one = readDetails(details)
    if (one.isInvalid) return failed('INVALID_DATAPOINTS')
    if (!one.isFound) return failed('NO_MATCH')
    const cost = bill(account, [one.input])
    if (cost === null) return failed('INSUFFICIENT_CREDITS')
    return { body: { error: false, free_enrichment: cost === 0, ...toMatch(one.n) } }
  }

  function answerMany(account: Account, requests: readonly Details[]): CannedAnswer {
    if (requests.length > 50) return failed('INVALID_REQUEST')
    const all = requests.map(readDetails)
    const taken = all.filter((one) => !one.isInvalid)
    const matched = taken.filter(({ isFound }) => isFound)
    const cost = bill(
      account,
      matched.map(({ input }) => input),
    )
    if (cost === null) return failed('INSUFFICIENT_CREDITS')
    const identifiersOf = (list: typeof all): unknown[] => list.map(({ identifier }) => identifier)
    return {
      body: {
        error: false,
        total_cost: cost,
        matched: matched.toReversed().map(({ identifier, n }) => ({ identifier, ...toMatch(n) })),
        not_matched: identifiersOf(taken.filter(({ isFound }) => !isFound)),
        invalid_datapoints: identifiersOf(all.filter((one) => one.isInvalid)),
      },
    }
  }

  const withHeaders = (answer: CannedAnswer): CannedAnswer => {
    const { limit, left, resetSeconds } = MINUTE.stateOf(standIn.calls)
    return {
      ...answer,
      headers: {
        'x-second-rate-limit': '100',
        'x-minute-rate-limit': String(limit),
        'x-minute-request-left': String(left),
        'x-minute-reset-seconds': String(resetSeconds),
        'x-daily-rate-limit': '100000',
        'x-daily-request-left': String(100_000 - standIn.calls.length),
        'x-daily-reset-seconds': '40000',
      },
    }
  }
  const standIn: StandIn = await playDescribed({
    ...options,
    windows: [MINUTE.window],
    refuse: () => withHeaders(failed('RATE_LIMITED', 429)),
    ...(hasFaults && { faults: { inBody: () => ({ ...failed('INTERNAL_ERROR'), status: 200 }) } }),
    answer: ({ path, headers, body }, account) => {
      if (headers['x-key'] !== PROSPEO_KEY) return failed('INVALID_API_KEY', 401)
      const { data } = body as { data: Details | Details[] }
      return withHeaders(
        Array.isArray(data)
          ? answerMany(account, data)
          : path === '/enrich-person' || path === '/enrich-company'
            ? answerOne(account, data)
            : { status: 404, body: { error: true, error_code: 'NOT_FOUND' } },
      )
    },
  })
  return standIn
}
