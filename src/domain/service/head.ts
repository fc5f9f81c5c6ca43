import type { ServiceDefinition, StatusMeaning } from './adapter.ts'
import type { ServiceAnswer } from './messages.ts'

/** The head of a response in the terms of HTTP and under the usual header names. */
export interface AnswerHead {
  status: number
  headers: ServiceAnswer['headers']
  /** The service says that the account has no credits left. The status is then 402. */
  isOutOfCredits?: boolean
}

/** Puts a head into the usual terms; null: the service uses them itself. */
export type NormalizeHead = ((head: AnswerHead) => AnswerHead) | null

/** The status of HTTP that has a meaning. */
const STATUS_OF: Readonly<Record<StatusMeaning, number>> = {
  accepted: 202,
  not_found: 404,
  rejected: 422,
  transient: 503,
  unauthorized: 401,
  rate_limited: 429,
  out_of_credits: 402,
}

/** Null if the service's heads are in the usual terms, so that nothing is done for each call. */
export function createNormalizer({
  statuses = {},
  rate,
}: Pick<ServiceDefinition, 'statuses' | 'rate'>): NormalizeHead {
  const meaningOf = new Map(Object.entries(statuses).map(([status, outcome]) => [Number(status), outcome]))
  const toHeaders = rate?.headers ?? null
  if (meaningOf.size === 0 && toHeaders === null) return null
  return ({ status, headers }) => {
    const outcome = meaningOf.get(status)
    const usual = toHeaders === null ? headers : { ...headers, ...toHeaders(headers) }
    const head = { status, headers: usual }
    return outcome === undefined ? head : applyMeaning(head, { outcome })
  }
}

/** A head with the status of what was said in its place, and with the pause, if that has one. */
export function applyMeaning(
  { headers }: AnswerHead,
  { outcome, retryAfterMs }: { readonly outcome: StatusMeaning; readonly retryAfterMs?: number },
): AnswerHead {
  return {
    status: STATUS_OF[outcome],
    headers:
      retryAfterMs === undefined
        ? headers
        : { ...headers, 'retry-after': String(Math.ceil(retryAfterMs / 1_000)) },
    ...(outcome === 'out_of_credits' && { isOutOfCredits: true }),
  }
}
