/**
 * What a status says of its call:
 * - `answered`: the body is the answer; `accepted`: the answer comes later; `no_match`: 404
 * - `unreadable`: a success without an answer
 * - `rejected`, `refused`: the input is at fault
 * - `setting`: every request, whatever its input, unless the endpoint answers others; `unsupported`: the same, and it will
 *   say so tomorrow, too
 * - `unauthorized`, `forbidden`, `rate_limited`: the key
 * - `busy`: not processed, and the same request may be sent again
 * - `failed`: the service's own error; `unavailable`: it processes nothing at the moment
 * - `gateway`: something in front of the service, which may have forwarded the request
 */
type StatusClass =
  | 'answered'
  | 'accepted'
  | 'unreadable'
  | 'no_match'
  | 'rejected'
  | 'refused'
  | 'setting'
  | 'unsupported'
  | 'unauthorized'
  | 'forbidden'
  | 'rate_limited'
  | 'busy'
  | 'failed'
  | 'unavailable'
  | 'gateway'

/** Statuses that mean something else than most of their hundred. */
const SPECIAL: ReadonlyMap<number, StatusClass> = new Map<number, StatusClass>([
  ...[200, 201, 203].map((status) => [status, 'answered'] as const),
  [202, 'accepted'],
  ...[400, 422].map((status) => [status, 'rejected'] as const),
  [401, 'unauthorized'],
  [403, 'forbidden'],
  [404, 'no_match'],
  [429, 'rate_limited'],
  ...[408, 421, 423, 425].map((status) => [status, 'busy'] as const),
  ...[402, 405, 407, 501, 505].map((status) => [status, 'setting'] as const),
  ...[406, 410, 411, 412, 415, 417, 426, 428].map((status) => [status, 'unsupported'] as const),
  [500, 'failed'],
  ...[503, 511].map((status) => [status, 'unavailable'] as const),
])

/** The one place that decides what a status means. Everything else follows from its class. */
export function classifyStatus(status: number): StatusClass {
  const special = SPECIAL.get(status)
  if (special !== undefined) return special
  if (status < 300) return 'unreadable'
  if (status < 400) return 'setting'
  return status < 500 ? 'refused' : 'gateway'
}

interface StatusFacts {
  /**
   * Whether the service has done, and bills, the work of a call. `unlikely`: it says that it failed, and its interface says
   * to try again; a job of a hundred inputs counts as in doubt all the same.
   */
  readonly workDone: 'yes' | 'maybe' | 'unlikely' | 'no'
  /** It shows that the service accepts the key. */
  readonly acceptsKey: boolean
}

const facts = (workDone: StatusFacts['workDone'], acceptsKey = false): StatusFacts => ({
  workDone,
  acceptsKey,
})

/** What follows from a class, besides its error (`service/response-errors.ts:statusError`). */
const STATUS_FACTS: Readonly<Record<StatusClass, StatusFacts>> = {
  answered: facts('yes', true),
  accepted: facts('yes', true),
  unreadable: facts('yes', true),
  no_match: facts('no', true),
  rejected: facts('no', true),
  refused: facts('no'),
  setting: facts('no'),
  unsupported: facts('no'),
  unauthorized: facts('no'),
  forbidden: facts('no'),
  rate_limited: facts('no'),
  busy: facts('no'),
  failed: facts('unlikely'),
  unavailable: facts('no'),
  gateway: facts('maybe'),
}

export const statusFacts = (status: number): StatusFacts => STATUS_FACTS[classifyStatus(status)]

/** Answers to a poll that say nothing about the job yet. A 404 may come before the service has stored it. */
const NOT_READY: ReadonlySet<number> = new Set([202, 204, 400, 404, 409, 425])

/** What a status says of a job that was fetched; `body`: what its body says. */
export function pollOutcome(status: number): 'pending' | 'gone' | 'body' {
  if (status === 410) return 'gone'
  return NOT_READY.has(status) ? 'pending' : 'body'
}
