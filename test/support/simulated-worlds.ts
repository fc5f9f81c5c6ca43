import type { JsonObject } from '../../src/domain/json.ts'
import { LOOKUP_KINDS, type LookupKind } from '../../src/domain/identifiers/kind.ts'
import type { ServiceDefinition, ServiceReading } from '../../src/domain/service/adapter.ts'
import { createService, type Service } from '../../src/domain/service/service.ts'
import type { BulkInput, ServiceAnswer, ServiceFailure } from '../../src/domain/service/messages.ts'
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

/** What a lookup of each kind is for somebody, or a company, of this name: its key, and its input as it is stored. */
export const LOOKUPS = {
  email: (name) => ({ key: `${name}@x.example`, input: { email: `${name}@x.example` } }),
  linkedin_url: (name) => ({
    key: `linkedin.com/in/${name}`,
    input: { linkedin_url: `https://www.linkedin.com/in/${name}` },
  }),
  name_company: (name) => ({ key: `${name}|x ltd`, input: { name, company: 'X Ltd' } }),
  domain: (name) => ({ key: `${name}.example`, input: { domain: `${name}.example` } }),
} as const satisfies Record<LookupKind, (name: string) => { readonly key: string; readonly input: object }>

/** The name in a key or an input: `w12-3`. */
export const nameIn = (value: unknown): string =>
  /w\d+-\d+/i.exec(JSON.stringify(value))?.[0].toLowerCase() ?? ''

/** The same for one person or company, with what the answer cost if it says it. */
function readOne(answer: ServiceAnswer): ServiceReading | undefined {
  const { cost, confidence, ...record } = (answer.body ?? {}) as { cost?: number; confidence?: number }
  const said = readSaid(answer)
  if (said !== undefined || cost === undefined) return said
  return confidence === undefined
    ? { outcome: 'not_found', credits: cost }
    : { outcome: 'found', record: record as JsonObject, confidence, credits: cost }
}

/** The same for results, with what each, or their job, cost; `next` leads to the next page of them. */
function readResults(answer: ServiceAnswer) {
  const said = readSaid(answer)
  const { body } = answer
  if (said !== undefined || typeof body !== 'object' || body === null || !('stating' in body)) return said
  const { results, total, status: jobStatus, next } = body as unknown as Stated
  const delivery = { status: jobStatus, results, credits: total }
  return next === undefined
    ? { outcome: 'results' as const, delivery }
    : { outcome: 'more' as const, delivery, cursor: next }
}

interface Stated {
  readonly results: readonly object[]
  readonly total?: number
  readonly status?: string
  readonly next?: string
}

/** The same service by how its results come; with readers, which also read what a body says, or without. */
function createModes(inputs: 'emails' | 'any', isRead: boolean) {
  const own = isRead && { read: readOne }
  const single = {
    name: 'world',
    person: { path: '/person', ...own },
    company: { path: '/company', method: 'POST', ...own },
    fields: { person: { title: 'text' }, company: { title: 'text' } },
  } as const
  const body = ({ inputs: all }: BulkInput): object => ({ inputs: all })
  const create = (
    more: Partial<ServiceDefinition>,
    job: Partial<NonNullable<ServiceDefinition['bulk']>> = isRead ? { read: readSaid } : {},
  ): Service => {
    const jobs = { size: PEOPLE, ordered: isRead, ...job } as const
    return createService({
      ...single,
      bulk: { path: '/bulk', ...jobs, ...(inputs !== 'emails' && { inputs: LOOKUP_KINDS.person, body }) },
      companyBulk: { path: '/companies', ...jobs, body },
      ...more,
    })
  }
  const readAnswered = (answer: ServiceAnswer) => {
    const reading = readResults(answer)
    return reading?.outcome === 'more' ? undefined : reading
  }
  return {
    single: createService(single),
    webhook: create({ webhook: { signature: { header: 'x-signature' } } }),
    poll: create({
      poll: isRead
        ? { path: '/jobs/{job_id}/{cursor}', after: '10s', read: readResults }
        : { path: '/jobs/{job_id}', after: '10s' },
    }),
    answer: create({}, { results: 'answer', ...(isRead && { read: readAnswered }) }),
  } as const
}

const createAll = (isRead: boolean) => ({
  emails: createModes('emails', isRead),
  any: createModes('any', isRead),
})
const PLAIN = createAll(false)
const READ = createAll(true)
/** Settles deliveries of all: named results are matched by their names, the others by their order. */
export const SETTLING = READ.any.webhook

/** One service, made from its number. */
export class World {
  readonly name: string
  /** What identifies those whom it is asked for. */
  readonly kind: LookupKind
  readonly mode: keyof (typeof PLAIN)['any']
  readonly adapter: Service
  /** Its results are in order, and name neither their input nor anybody. */
  readonly #isUnnamed: boolean
  /** The address of an input that is erased while it is looked up. */
  readonly erased: string | null
  readonly names: readonly string[]
  /** What a job delivers. */
  readonly delivers: 'all' | 'part' | 'nothing' | 'failed' | 'twice'
  /** Where it states what it bills, in parts of a credit: with each result, or for a whole job. */
  readonly states: 'nothing' | 'each' | 'job'
  /** How the results of its jobs come that are fetched: whole, page by page, or in pages that lead in a circle. */
  readonly #pages: 'none' | 'pages' | 'circle'
  /** How often each input was billed, called alone, and posted in a job; refusals by the limit apart. */
  billed = 0
  /** What was billed, in tenths of a credit. */
  billedTenths = 0
  readonly calls = new Map<string, number>()
  readonly posts = new Map<string, number>()
  /** The inputs of its jobs, in their order. */
  readonly #jobs: (readonly string[])[] = []
  readonly #random: () => number
  readonly #oddShare: number
  readonly #palette: readonly ((random: () => number) => OddAnswer)[]
  /** An input that always gets the same odd answer. */
  readonly #poisoned: string | null
  #limitedLeft = 5

  constructor(number: number, seed: number) {
    this.#random = seeded(seed * 1_000_003 + number)
    this.name = `w${number}`
    this.names = Array.from({ length: PEOPLE }, (_, n) => `${this.name}-${n}`)
    this.kind = this.#pick(['email', 'email', 'email', 'linkedin_url', 'name_company', 'domain'] as const)
    this.mode = this.#pick(['single', 'single', 'webhook', 'poll', 'answer'] as const)
    this.delivers = this.#pick(['all', 'all', 'part', 'nothing', 'failed', 'twice'] as const)
    const isErased = this.#random() < 0.2 && this.kind === 'email'
    this.erased = isErased ? LOOKUPS.email(this.#pick(this.names)).key : null
    this.#oddShare = this.#pick([0, 0.1, 0.3, 0.6, 0.9, 1])
    const isRead = this.#random() < 0.4
    this.adapter = (isRead ? READ : PLAIN)[this.kind === 'email' ? 'emails' : 'any'][this.mode]
    this.#isUnnamed = isRead && this.#random() < 0.5
    this.#palette = Array.from({ length: 1 + Math.floor(this.#random() * 4) }, () =>
      this.#pick(isRead && this.#random() < 0.6 ? SAID : ODD),
    )
    this.#poisoned = this.#random() < 0.3 ? this.#pick(this.names) : null
    this.states = isRead ? this.#pick(['nothing', 'each', 'job'] as const) : 'nothing'
    this.#pages = isRead ? this.#pick(['none', 'pages', 'pages', 'circle'] as const) : 'none'
    // Half of those that state what they bill answer as they should: what is counted of them must be exact.
    if (this.states !== 'nothing' && this.#random() < 0.5)
      [this.#oddShare, this.#poisoned, this.erased] = [0, null, null]
  }

  /** What is stored of a lookup. */
  lookupOf(name: string): { readonly key: string; readonly input: object } {
    return LOOKUPS[this.kind](name)
  }

  /** Each answer says what it cost, or is the only one: what is counted must be what is billed. */
  get isExact(): boolean {
    const isUsual = this.#oddShare === 0 && this.#poisoned === null && this.erased === null
    const isWhole = this.mode === 'single' || this.delivers === 'all' || this.delivers === 'twice'
    const isFetched = this.mode !== 'poll' || this.#pages !== 'circle'
    return this.states !== 'nothing' && isUsual && isWhole && isFetched
  }

  /** Half a credit for a match, and a tenth for some misses. One credit where it states nothing. */
  #tenthsOf(name: string): number {
    if (this.states === 'nothing') return 10
    return this.isKnown(name) ? 5 : this.name.length % 2
  }

  #bill(names: readonly string[]): void {
    this.billed += names.length
    for (const name of names) this.billedTenths += this.#tenthsOf(name)
  }

  /** What a job cost, and its results. */
  delivery(names: readonly string[]): { readonly results: object[]; readonly credits?: number } {
    const tenths = names.reduce((sum, name) => sum + this.#tenthsOf(name), 0)
    return { results: this.results(names), ...(this.states === 'job' && { credits: tenths / 10 }) }
  }

  #pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.#random() * from.length)] as T
  }

  /** Whether the service knows the person. */
  isKnown = (name: string): boolean => !name.endsWith('-3')

  results(names: readonly string[]): object[] {
    const answered = this.delivers === 'part' ? names.slice(0, 2) : names
    return answered.map((name, index) => ({
      ...(!this.#isUnnamed && this.#nameResult(name, index)),
      ...(this.states === 'each' && { credits: this.#tenthsOf(name) / 10 }),
      data: this.isKnown(name)
        ? {
            ...(!this.#isUnnamed && this.kind === 'email' && LOOKUPS.email(name).input),
            confidence: 0.9,
            title: `Title of ${name}`,
          }
        : null,
    }))
  }

  /** Its own identifier, in another form, or the place of an input that has none. */
  #nameResult(name: string, index: number): object {
    switch (this.kind) {
      case 'email':
        return { request_id: LOOKUPS.email(name).key }
      case 'linkedin_url':
        return { request_id: `http://no.linkedin.com/in/${name.toUpperCase()}/` }
      case 'domain':
        return { request_id: `https://www.${name}.example/` }
      case 'name_company':
        return { index }
    }
  }

  respond(path: string, body: string): RawAnswer {
    if (path.startsWith('/jobs')) return this.#poll(path)
    const parsed = JSON.parse(body) as { emails?: unknown[]; inputs?: unknown[] }
    const job = parsed.emails ?? parsed.inputs
    const names = (job ?? [parsed]).map(nameIn)
    const counts = job ? this.posts : this.calls
    const odd = this.#odd(names)
    const isLimited = odd !== null && isLimit(odd)
    const [first = ''] = names
    if (!isLimited) counts.set(first, (counts.get(first) ?? 0) + 1)
    if (odd !== null) {
      const isBilled = odd.bills === 'always' || (odd.bills === 'maybe' && this.#random() < 0.5)
      // A job is billed when it is accepted; one that is refused, never.
      const isRefusedJob =
        job !== undefined && odd.bills === 'always' && !/ 202 /.test(String(odd.answer.bytes))
      if (isBilled && !isRefusedJob) this.#bill(names)
      return odd.answer
    }
    this.#bill(names)
    if (job === undefined) {
      const cost = this.states === 'nothing' ? {} : { cost: this.#tenthsOf(first) / 10 }
      return this.isKnown(first)
        ? status(200, {}, JSON.stringify({ confidence: 0.9, title: `Title of ${first}`, ...cost }))
        : status(404, {}, JSON.stringify(cost))
    }
    return this.mode === 'answer'
      ? status(200, {}, JSON.stringify(this.#written(names)))
      : status(202, {}, JSON.stringify({ job_id: `${this.name}-job-${this.#jobs.push(names)}` }))
  }

  /** Results as they are in an answer. */
  #written(names: readonly string[]): object {
    const { results, credits: total } = this.delivery(names)
    return { ...((this.states !== 'nothing' || this.#pages !== 'none') && { stating: true }), results, total }
  }

  #poll(path: string): RawAnswer {
    const odd = this.#odd([])
    if (odd !== null) return odd.answer
    if (this.delivers === 'nothing') return status(202)
    if (this.delivers === 'failed') return status(200, {}, JSON.stringify({ status: 'failed', results: [] }))
    const [, , id = '', cursor] = path.split('/')
    const job = this.#jobs[Number(/\d+$/.exec(id)?.[0]) - 1] ?? []
    const written = this.#written(job) as { results: object[] }
    const from = Number(cursor ?? 0)
    const isLast = this.#pages === 'none' || from + 2 >= written.results.length
    const page = {
      ...written,
      results: this.#pages === 'none' ? written.results : written.results.slice(from, from + 2),
    }
    if (isLast && this.#pages !== 'circle')
      return status(200, {}, JSON.stringify({ status: 'completed', ...page }))
    return status(200, {}, JSON.stringify({ ...page, next: String((from + 2) % PEOPLE) }))
  }

  #odd(names: readonly string[]): OddAnswer | null {
    const isPoisoned = this.#poisoned !== null && names.includes(this.#poisoned)
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
