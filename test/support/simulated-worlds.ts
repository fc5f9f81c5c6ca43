import { createService, type Service } from '../../src/domain/service/service.ts'
import type { ServiceAnswer, ServiceFailure } from '../../src/domain/service/messages.ts'
import { rawStatus, type RawAnswer } from '../unit/service/loopback-service.ts'
import { seeded } from './simulated-service/random.ts'

// Services that answer oddly, each in its own way: what they are, what they answer, and what they bill.

export const PEOPLE = 4

interface OddAnswer {
  readonly answer: RawAnswer
  /** `maybe`: it may have done the work before. */
  readonly bills: 'never' | 'maybe' | 'always'
  /** It asks for a pause, and is no attempt. */
  readonly isLimit?: boolean
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

const said = (
  reading: ServiceFailure | { outcome: 'throws' },
  bills: OddAnswer['bills'],
  isLimit = false,
): (() => OddAnswer) => {
  const answer = status(200, {}, JSON.stringify({ said: reading }))
  return () => ({ answer, bills, isLimit })
}

/** What a body says in place of an answer, of a service whose description reads it. */
const SAID: readonly (() => OddAnswer)[] = [
  said({ outcome: 'rate_limited', retryAfterMs: 5_000 }, 'never', true),
  said({ outcome: 'rate_limited' }, 'never', true),
  said({ outcome: 'banned', retryAfterMs: 60_000 }, 'never', true),
  said({ outcome: 'transient', retryAfterMs: 20_000 }, 'never'),
  said({ outcome: 'transient' }, 'never'),
  said({ outcome: 'unauthorized' }, 'never'),
  said({ outcome: 'out_of_credits' }, 'never'),
  said({ outcome: 'rejected', reason: 'no such input' }, 'always'),
  said({ outcome: 'unreadable', reason: 'strange' }, 'maybe'),
  said({ outcome: 'throws' }, 'maybe'),
]

function readSaid({ body }: ServiceAnswer): ServiceFailure | undefined {
  const reading = (body as { said?: ServiceFailure | { outcome: 'throws' } } | undefined)?.said
  if (reading?.outcome === 'throws') throw new Error('a mistake in the description')
  return reading
}

/** The same service by how its results come; with readers, which also read what a body says, or without. */
function createModes(read?: typeof readSaid) {
  const own = read && { read }
  const single = { name: 'world', person: { path: '/person', ...own } } as const
  const bulk = { path: '/bulk', size: PEOPLE, ordered: read !== undefined, ...own } as const
  const webhook = { signature: { header: 'x-signature' } } as const
  return {
    single: createService(single),
    webhook: createService({ ...single, bulk, webhook }),
    poll: createService({ ...single, bulk, poll: { path: '/jobs/{job_id}', after: '10s', ...own } }),
    answer: createService({ ...single, bulk: { ...bulk, results: 'answer' } }),
  } as const satisfies Record<string, Service>
}

const PLAIN = createModes()
const READ = createModes(readSaid)
/** Settles deliveries of all: named results are matched by their names, the others by their order. */
export const SETTLING = READ.webhook

/** One service, made from its number. */
export class World {
  readonly name: string
  readonly mode: keyof typeof PLAIN
  readonly adapter: Service
  /** Its results are in order, and name neither their input nor anybody. */
  readonly #isUnnamed: boolean
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
    const isRead = this.#random() < 0.4
    this.adapter = (isRead ? READ : PLAIN)[this.mode]
    this.#isUnnamed = isRead && this.#random() < 0.5
    this.#palette = Array.from({ length: 1 + Math.floor(this.#random() * 4) }, () =>
      this.#pick(isRead && this.#random() < 0.6 ? SAID : ODD),
    )
    this.#poisoned = this.#random() < 0.3 ? this.#pick(this.emails) : null
  }

  #pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.#random() * from.length)] as T
  }

  /** Whether the service knows the person. */
  isKnown = (email: string): boolean => !email.includes('-3@')

  results(emails: readonly string[]): object[] {
    const answered = this.delivers === 'part' ? emails.slice(0, 2) : emails
    const name = (email: string): object => (this.#isUnnamed ? {} : { request_id: email })
    return answered.map((email) => ({
      ...name(email),
      data: this.isKnown(email)
        ? { ...(!this.#isUnnamed && { email }), confidence: 0.9, title: `Title of ${email}` }
        : null,
    }))
  }

  respond(path: string, body: string): RawAnswer {
    if (path.startsWith('/jobs')) return this.#poll()
    const parsed = JSON.parse(body) as { email?: string; emails?: string[] }
    const emails = parsed.emails ?? [parsed.email ?? '']
    const counts = parsed.emails ? this.posts : this.calls
    const odd = this.#odd(emails)
    const isLimited = odd !== null && isLimit(odd)
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
    if (isLimit(odd) && this.#limitedLeft-- <= 0) return null
    return odd
  }
}

const isLimit = (odd: OddAnswer): boolean =>
  odd.isLimit === true || /^HTTP\/1.1 429/.test(String(odd.answer.bytes))
