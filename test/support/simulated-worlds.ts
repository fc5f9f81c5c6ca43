import { createService, type Service } from '../../src/domain/service/service.ts'
import { rawStatus, type RawAnswer } from '../unit/service/loopback-service.ts'
import { seeded } from './simulated-service/random.ts'

// Services that answer oddly, each in its own way: what they are, what they answer, and what they bill.

export const PEOPLE = 4

interface OddAnswer {
  readonly answer: RawAnswer
  /** `maybe`: it may have done the work before. */
  readonly bills: 'never' | 'maybe' | 'always'
}

const status = (code: number, headers: Record<string, string> = {}, body = ''): RawAnswer =>
  rawStatus(code, { headers, body })

const cut = (bytes: string): OddAnswer => ({ answer: { bytes, end: 'close' }, bills: 'maybe' })

/** Every kind of answer, each as often as the next. */
const ODD: readonly ((random: () => number) => OddAnswer)[] = [
  ...[
    300, 301, 302, 304, 400, 402, 404, 405, 406, 407, 408, 409, 410, 413, 415, 421, 423, 425, 426, 428, 431,
    451,
  ].map(
    (code) => () =>
      ({ answer: status(code, { 'content-type': 'text/html' }, '<html>'), bills: 'never' }) as const,
  ),
  ...[200, 201, 204, 206, 207, 299, 502, 504, 508, 520, 524, 599].map(
    (code) => () => ({ answer: status(code, {}, '<html>'), bills: 'maybe' }) as const,
  ),
  ...['', 'null', '[]', '{"confidence":', '{"success":false}', '{"error":"internal"}'].map(
    (body) => () => ({ answer: status(200, {}, body), bills: 'maybe' }) as const,
  ),
  ...[401, 403, 429, 500, 500, 501, 503, 503, 511].map(
    (code) => () => ({ answer: status(code), bills: 'never' }) as const,
  ),
  ...['-5', '0', '7', '315360000', 'soon', 'Fri, 01 Jan 2100 00:00:00 GMT'].map(
    (wait) => (random: () => number) =>
      ({
        answer: status([408, 429, 500, 503][Math.floor(random() * 4)] ?? 503, { 'retry-after': wait }),
        bills: 'never',
      }) as const,
  ),
  () => ({ answer: status(422), bills: 'always' }),
  () => ({ answer: status(202, {}, '{}'), bills: 'always' }),
  () => ({ answer: { bytes: rawStatus(103).bytes, end: 'close' }, bills: 'maybe' }),
  () => cut(''),
  () => cut('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"conf'),
  () => cut('no HTTP at all\r\n'),
]

const SINGLE = { name: 'world', person: { path: '/person' } } as const
const WEBHOOK = { signature: { header: 'x-signature' } } as const
export const MODES = {
  single: createService(SINGLE),
  webhook: createService({ ...SINGLE, bulk: { path: '/bulk', size: PEOPLE }, webhook: WEBHOOK }),
  poll: createService({
    ...SINGLE,
    bulk: { path: '/bulk', size: PEOPLE },
    poll: { path: '/jobs/{job_id}', after: '10s' },
  }),
  answer: createService({ ...SINGLE, bulk: { path: '/bulk', size: PEOPLE, results: 'answer' } }),
} as const satisfies Record<string, Service>

/** One service, made from its number. */
export class World {
  readonly name: string
  readonly mode: keyof typeof MODES
  /** An input that is erased while it is looked up. */
  readonly erased: string | null
  readonly emails: readonly string[]
  /** What a job delivers. */
  readonly delivers: 'all' | 'part' | 'nothing' | 'failed' | 'twice'
  /** How often each input was billed, called alone, and posted in a job; refusals by the limit apart. */
  billed = 0
  readonly calls = new Map<string, number>()
  readonly posts = new Map<string, number>()
  readonly #random: () => number
  readonly #oddShare: number
  readonly #palette: readonly ((random: () => number) => OddAnswer)[]
  /** An input that always gets the same odd answer. */
  readonly #poisoned: string | null
  #limitedLeft = 5

  constructor(number: number, seed: number) {
    this.#random = seeded(seed * 1_000_003 + number)
    this.name = `w${number}`
    this.emails = Array.from({ length: PEOPLE }, (_, n) => `${this.name}-${n}@x.example`)
    this.mode = this.#pick(['single', 'single', 'webhook', 'poll', 'answer'] as const)
    this.delivers = this.#pick(['all', 'all', 'part', 'nothing', 'failed', 'twice'] as const)
    this.erased = this.#random() < 0.2 ? this.#pick(this.emails) : null
    this.#oddShare = this.#pick([0, 0.1, 0.3, 0.6, 0.9, 1])
    this.#palette = Array.from({ length: 1 + Math.floor(this.#random() * 4) }, () => this.#pick(ODD))
    this.#poisoned = this.#random() < 0.3 ? this.#pick(this.emails) : null
  }

  #pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.#random() * from.length)] as T
  }

  /** Whether the service knows the person. */
  isKnown = (email: string): boolean => !email.includes('-3@')

  results(emails: readonly string[]): object[] {
    const answered = this.delivers === 'part' ? emails.slice(0, 2) : emails
    return answered.map((email) => ({
      request_id: email,
      data: this.isKnown(email) ? { email, confidence: 0.9, title: `Title of ${email}` } : null,
    }))
  }

  respond(path: string, body: string): RawAnswer {
    if (path.startsWith('/jobs')) return this.#poll()
    const parsed = JSON.parse(body) as { email?: string; emails?: string[] }
    const emails = parsed.emails ?? [parsed.email ?? '']
    const counts = parsed.emails ? this.posts : this.calls
    const odd = this.#odd(emails)
    const isLimited = odd !== null && /^HTTP\/1.1 429/.test(String(odd.answer.bytes))
    const [first = ''] = emails
    if (!isLimited) counts.set(first, (counts.get(first) ?? 0) + 1)
    if (odd !== null) {
      const isBilled = odd.bills === 'always' || (odd.bills === 'maybe' && this.#random() < 0.5)
      // A job is billed when it is accepted; one that is refused, never.
      const isRefusedJob =
        parsed.emails !== undefined && odd.bills === 'always' && !/ 202 /.test(String(odd.answer.bytes))
      if (isBilled && !isRefusedJob) this.billed += emails.length
      return odd.answer
    }
    this.billed += emails.length
    if (parsed.emails === undefined)
      return this.isKnown(first)
        ? status(200, {}, JSON.stringify({ email: first, confidence: 0.9, title: `Title of ${first}` }))
        : status(404, {}, '{}')
    return this.mode === 'answer'
      ? status(200, {}, JSON.stringify({ results: this.results(emails) }))
      : status(202, {}, JSON.stringify({ job_id: `${this.name}-job-${first}` }))
  }

  #poll(): RawAnswer {
    const odd = this.#odd([])
    if (odd !== null) return odd.answer
    if (this.delivers === 'nothing') return status(202)
    const isFailed = this.delivers === 'failed'
    const results = isFailed ? [] : this.results(this.emails)
    return status(200, {}, JSON.stringify({ status: isFailed ? 'failed' : 'completed', results }))
  }

  #odd(emails: readonly string[]): OddAnswer | null {
    const isPoisoned = this.#poisoned !== null && emails.includes(this.#poisoned)
    if (!isPoisoned && this.#random() >= this.#oddShare) return null
    const [always = this.#pick(ODD)] = this.#palette
    const odd = (isPoisoned ? always : this.#pick(this.#palette))(this.#random)
    // A limit that never ends is waited for without end, at growing intervals.
    if (/^HTTP\/1.1 429/.test(String(odd.answer.bytes)) && this.#limitedLeft-- <= 0) return null
    return odd
  }
}
