import type { CannedAnswer } from '../../../src/actions/service-cases.ts'
import { isKnownNumber, numberOf, type StandInOptions } from '../described-runs.ts'
import { playDescribed, type StandIn } from '../described-service.ts'
import { createWindow } from './stated-window.ts'

export const LUSHA_KEY = 'lusha-key'
/** A minute of a plan, made smaller. No header says when it ends. */
export const LUSHA_LIMIT = '40 per 2 seconds'
const MINUTE = createWindow(40, 2_000)

/** A person who may not be looked up. */
export const isRestricted = (n: number): boolean => n % 50 === 13

interface Contact {
  readonly clientReferenceId?: string
  readonly email?: string
  readonly linkedinUrl?: string
  readonly lastName?: string
  readonly domain?: string
}

const inputOf = ({ email, linkedinUrl, lastName, domain }: Contact): string =>
  email ?? linkedinUrl ?? lastName ?? domain ?? ''

const listContacts = (body: unknown): { readonly isCompany: boolean; readonly list: readonly Contact[] } => {
  const { contacts, companies } = body as { contacts?: Contact[]; companies?: Contact[] }
  return { isCompany: companies !== undefined, list: contacts ?? companies ?? [] }
}

const errorOf = (code: string): object => ({ error: { code, message: code } })

const answerOf = (results: readonly object[], creditsCharged: number): CannedAnswer => ({
  body: { requestId: 'r-1', results, billing: { creditsCharged, resultsReturned: results.length } },
})

/**
 * Lusha: misses, refusals and failures stand in a 200, with the reference of their input; what a call costs is one sum, one for a
 * person and two for a company; headers state three windows.
 */
export async function playLusha({ hasFaults = false, ...options }: StandInOptions = {}): Promise<StandIn> {
  const failedOnce = new Set<string>()
  /** A result, and what it costs. */
  function find(contact: Contact, isCompany: boolean, isOne: boolean): readonly [object, number] {
    const input = inputOf(contact)
    const n = numberOf(input)
    if (!isCompany && isRestricted(n)) return [errorOf('COMPLIANCE_RESTRICTED'), 0]
    if (!isKnownNumber(n)) return [errorOf('NOT_FOUND'), 0]
    // Of many in a call some fail, once.
    if (hasFaults && !isOne && n % 20 === 7 && !failedOnce.has(input)) {
      failedOnce.add(input)
      return [errorOf('ENRICH_FAILED'), 0]
    }
    const id = `v1.${n}`
    return isCompany
      ? [{ id, name: `Company ${n}`, domain: `www.${input}`, industry: `Industry ${n}` }, 2]
      : [{ id, jobTitle: { title: `Analyst ${n}` }, emails: [{ email: `work${n}@found.example` }] }, 1]
  }

  const withHeaders = (answer: CannedAnswer): CannedAnswer => {
    const { limit, left } = MINUTE.stateOf(standIn.calls)
    return {
      ...answer,
      headers: {
        'x-rate-limit-minute': String(limit),
        'x-minute-requests-left': String(left),
        'x-rate-limit-hourly': '5000',
        'x-hourly-requests-left': String(5_000 - standIn.calls.length),
        'x-rate-limit-daily': '50000',
        'x-daily-requests-left': String(50_000 - standIn.calls.length),
      },
    }
  }
  const standIn: StandIn = await playDescribed({
    ...options,
    windows: [MINUTE.window],
    refuse: () => withHeaders({ status: 429, body: { statusCode: 429, message: 'Rate limit exceeded' } }),
    ...(hasFaults && {
      faults: {
        // In a call of many it is single results that fail.
        inBody: ({ body }) =>
          listContacts(body).list.length === 1 ? answerOf([errorOf('ENRICH_FAILED')], 0) : null,
      },
    }),
    answer: ({ headers, body }, account) => {
      if (headers['api_key'] !== LUSHA_KEY)
        return { status: 400, body: { name: 'BadRequest', message: 'Invalid API key format', code: 400 } }
      const { isCompany, list } = listContacts(body)
      if (list.length > 100) return { status: 400, body: { name: 'BadRequest', code: 400 } }
      const found = list.map((contact) => ({
        contact,
        result: find(contact, isCompany, list.length === 1),
      }))
      const charged = found.reduce((sum, { result: [, cost] }) => sum + cost, 0)
      if (charged > account.balance()) return withHeaders({ status: 402, body: { statusCode: 402 } })
      for (const { contact, result } of found) account.bill(inputOf(contact), result[1])
      const results = found.map(({ contact: { clientReferenceId }, result: [result] }) => ({
        ...(clientReferenceId !== undefined && { clientReferenceId }),
        ...result,
      }))
      return withHeaders(answerOf(results, charged))
    },
  })
  return standIn
}
