import { setTimeout as sleep } from 'node:timers/promises'
import type { CannedAnswer } from '../../../src/actions/service-cases.ts'
import { isKnownNumber, numberOf, type StandInOptions } from '../described-runs.ts'
import { type Account, playDescribed, type StandIn } from '../described-service.ts'

export const DROPCONTACT_KEY = 'dropcontact-key'
export const DROPCONTACT_LIMIT = '60 per second'
const PATH = '/v1/enrich/all'
/** From a submission to its results, in milliseconds. */
const ENRICHED_MS = 300

interface SentRow {
  readonly email?: string
  readonly linkedin?: string
  readonly full_name?: string
  readonly custom_fields?: object
}

interface PlayedDropcontact extends StandIn {
  readonly jobs: readonly { readonly size: number }[]
  /** The statuses that its deliveries were answered with. */
  readonly receipts: readonly Promise<number>[]
}

const failed = (status: number, reason: string): CannedAnswer => ({
  status,
  body: { error: true, success: false, reason },
})

/** An email costs its verification, whatever comes of it. */
function enrich({ custom_fields, ...row }: SentRow, account: Account): object {
  const input = row.email ?? row.linkedin ?? row.full_name ?? ''
  const n = numberOf(input)
  const isKnown = isKnownNumber(n)
  if (isKnown || row.email !== undefined) account.bill(input, 1)
  const echoed = custom_fields === undefined ? {} : { custom_fields }
  // A row without an email is no match, whatever else it has.
  if (!isKnown) return { ...echoed, company: 'Engines', job: 'Clerk', ...(n % 8 === 0 && { email: [] }) }
  const email = [{ email: `work${n}@found.example`, qualification: 'nominative@pro' }]
  return { ...echoed, first_name: 'Ada', company: 'Engines', job: `Analyst ${n}`, email }
}

/**
 * Dropcontact: a job that is not ready is a 200, and so is one that it does not know. Rows come back in another order. A request
 * that the account cannot pay is refused whole. Deliveries are not signed.
 * @param options.isDelivered whether the results of a job, by its number from 1, arrive where an address was given
 */
export async function playDropcontact({
  hasFaults = false,
  isDelivered = () => true,
  ...options
}: StandInOptions & {
  readonly isDelivered?: (job: number) => boolean
} = {}): Promise<PlayedDropcontact> {
  const jobs: { readonly size: number; readonly rows: readonly object[]; readonly readyAt: number }[] = []
  const receipts: Promise<number>[] = []

  function submit(body: unknown, account: Account): CannedAnswer {
    const { data, custom_callback_url: callback } = body as { data: SentRow[]; custom_callback_url?: string }
    if (data.length > 250) return failed(400, 'Too many records, you can only submit up to 250 records')
    if (data.length > account.balance()) return failed(403, 'Not enough credits')
    const rows = data.map((row) => enrich(row, account)).toReversed()
    jobs.push({ size: data.length, rows, readyAt: performance.now() + ENRICHED_MS })
    if (callback !== undefined && isDelivered(jobs.length)) receipts.push(deliver(callback, rows))
    const left = account.balance()
    return { body: { error: false, success: true, request_id: `r-${jobs.length}`, credits_left: left } }
  }

  async function deliver(callback: string, data: readonly object[]): Promise<number> {
    await sleep(ENRICHED_MS)
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ error: false, success: true, data })
    return (await fetch(callback, { method: 'POST', headers, body })).status
  }

  const standIn = await playDescribed({
    ...options,
    windows: [{ calls: 60, ms: 1_000 }],
    endpointOf: ({ method }) => (method === 'POST' ? 'submit' : 'fetch'),
    refuse: () => failed(429, 'Too many requests'),
    ...(hasFaults && { faults: { inBody: () => ({ ...failed(500, 'Internal error'), status: 200 }) } }),
    answer: (request, account) => {
      if (request.headers['x-access-token'] !== DROPCONTACT_KEY) return failed(401, 'Unknown account')
      if (request.method === 'POST') return submit(request.body, account)
      const job = jobs[Number(request.path.slice(`${PATH}/r-`.length)) - 1]
      if (job === undefined || performance.now() < job.readyAt)
        return {
          body: { error: false, success: false, reason: 'Request not ready yet, try again in 30 seconds' },
        }
      return { body: { error: false, success: true, credits_left: account.balance(), data: job.rows } }
    },
  })
  return { ...standIn, jobs, receipts }
}
