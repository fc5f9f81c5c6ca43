import fc from 'fast-check'

/** A job as the service and Fillrate know it. */
interface ServiceJob {
  readonly key: string
  readonly jobId: string
  /** In the order of submission. */
  readonly addresses: readonly string[]
  /** What each is requested by. */
  readonly identifiers: readonly string[]
  /** The request ids of the 202 response. */
  readonly requestIds: readonly string[] | Readonly<Record<string, string>> | null
}

/**
 * A service with some response format and some faults, and its deliveries of the first job. The documentation specifies
 * neither the content of a 202 nor the form of a `request_id`, so every reasonable variant is generated.
 */
export interface Service {
  /** What it is asked for: people by email or by profile, or companies. */
  readonly kind: 'email' | 'linkedin_url' | 'domain'
  /** The first job is delivered; a second one, if any, has the same `job_id`. */
  readonly jobs: readonly ServiceJob[]
  readonly people: readonly string[]
  /** Addresses without a record. */
  readonly missing: ReadonlySet<string>
  /** Each result is identified or in order, and there are no faults. */
  readonly isPlain: boolean
  /** Its description declares that identifiers and results keep the order of the inputs. */
  readonly isOrdered: boolean
  readonly deliveries: readonly { readonly address: string | null; readonly body: object }[]
}

export const deliveriesOf = (service: Service): Service['deliveries'] => service.deliveries

const form = fc.record({
  kind: fc.constantFrom('email', 'email', 'linkedin_url', 'domain'),
  /** The form of a `request_id`, or the place that a reader gives in its stead. */
  naming: fc.constantFrom('opaque', 'address', 'shouted address', 'from 0', 'from 1', 'none', 'place'),
  /** What the 202 contains besides the job's identifier. */
  accepted: fc.constantFrom('nothing', 'list', 'disordered list', 'addresses', 'sorted addresses', 'map'),
  /** Which results repeat their address in `data`. */
  echo: fc.constantFrom('all', 'found', 'some', 'none'),
  order: fc.constantFrom('kept', 'kept', 'shuffled', 'reversed'),
  declaresOrder: fc.boolean(),
  parts: fc.integer({ min: 1, max: 3 }),
  /** The status of all deliveries but the last. */
  progress: fc.constantFrom('processing', 'completed', 'failed', null),
  last: fc.constantFrom('completed', 'completed', 'completed', 'failed'),
})

const faults = fc.record({
  /** Rejected addresses: no identifier, no result. */
  refused: fc.constantFrom(0, 0, 0, 1, 2),
  /** Lost results. */
  dropped: fc.constantFrom(0, 0, 0, 1, 2),
  /** Repeated results. */
  repeated: fc.constantFrom(0, 0, 0, 1),
  /** Results for addresses that were never submitted. */
  foreign: fc.constantFrom(0, 0, 0, 1, 2),
  /** Two results carry the identifier of one of them. */
  sharesIdentifier: fc.constantFrom(false, false, false, true),
  /** Records with an address that differs from the submitted one: an unknown one, or another member's. */
  alias: fc.constantFrom('none', 'none', 'none', 'stranger', 'member'),
  /** Another job has the same `job_id`. */
  jobIdTwice: fc.constantFrom(false, false, true),
  /** The whole delivery is repeated as another event. */
  redelivers: fc.boolean(),
  /** Whether it posts to the job's own address. */
  address: fc.constantFrom('own', 'own', 'own', 'none'),
})

type Form = typeof form extends fc.Arbitrary<infer Value> ? Value : never
type Faults = typeof faults extends fc.Arbitrary<infer Value> ? Value : never
type Random = (below: number) => number

/**
 * Services of every kind, those that keep no order and prove none among them. Excluded is what cannot be decided: an order
 * that is declared and not kept; a record with another member's address and no further evidence, as the place in one of two jobs is none; an identifier that is
 * right in one delivery and wrong in the next; a miss without a name, repeated in the place of a result that was lost, comes later or
 * was sent without its record before the job was done.
 */
export const services: fc.Arbitrary<Service> = fc
  .record({
    form,
    faults: fc.oneof(faults, faults.map(noFaults)),
    size: fc.oneof(
      { weight: 20, arbitrary: fc.integer({ min: 1, max: 8 }) },
      { weight: 1, arbitrary: fc.integer({ min: 9, max: 100 }) },
    ),
    seed: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
  })
  .map(({ form: wanted, faults: made, size, seed }) => {
    const service = decidable(wanted, made)
    return build(service.form, service.faults, size, randomFrom(seed))
  })

function noFaults({ address }: Faults): Faults {
  return {
    refused: 0,
    dropped: 0,
    repeated: 0,
    foreign: 0,
    sharesIdentifier: false,
    alias: 'none',
    jobIdTwice: false,
    redelivers: false,
    address,
  }
}

function decidable(wanted: Form, made: Faults): { form: Form; faults: Faults } {
  // A place in one of two jobs that it may be for is no evidence.
  const isPlaced = wanted.naming === 'place' && !(made.jobIdTwice && made.address === 'none')
  const isNamed = wanted.naming.endsWith('address') || isPlaced
  const byNumber = wanted.naming.startsWith('from')
  const listIsTrue = wanted.naming === 'opaque' && (wanted.accepted === 'list' || wanted.accepted === 'map')
  const alias = made.alias === 'member' && !(isNamed && !made.sharesIdentifier) ? 'none' : made.alias
  const isLost = made.refused + made.dropped + made.repeated + made.foreign > 0 || made.sharesIdentifier
  const isDisordered = wanted.order !== 'kept' && !byNumber
  // An empty result does not name its company: it would be a record.
  const isUndecidable = wanted.kind === 'domain' && wanted.naming === 'none' && isLost
  const declaresOrder =
    wanted.declaresOrder && !isDisordered && wanted.accepted !== 'disordered list' && !isUndecidable
  // An order that is declared is used for whatever names nothing: then nothing may be lost without a name.
  const needsEcho = declaresOrder && wanted.naming === 'none' && isLost
  const needsFound = declaresOrder && isLost && !isNamed && !(listIsTrue && !made.sharesIdentifier)
  const echo = needsEcho ? 'all' : needsFound && wanted.echo !== 'all' ? 'found' : wanted.echo
  return {
    form: { ...wanted, declaresOrder, echo, parts: made.sharesIdentifier ? 1 : wanted.parts },
    faults: { ...made, alias: needsEcho || (needsFound && alias === 'stranger') ? 'none' : alias },
  }
}

interface Result {
  readonly request_id?: string | undefined
  readonly index?: number | undefined
  readonly data: Record<string, unknown> | null
}

const isUnnamedMiss = ({ request_id, index, data }: Result): boolean =>
  request_id === undefined && index === undefined && Object.keys(data ?? {}).length === 0

function build(how: Form, made: Faults, size: number, random: Random): Service {
  const own = Array.from({ length: size }, (_, n) => `p${n}@x.example`)
  const others = Array.from({ length: random(6) }, (_, n) => `o${n}@x.example`)
  const people = [...own, ...others]
  const missing = new Set(people.filter(() => random(3) === 0))
  const shuffled = <T>(list: readonly T[]): T[] =>
    list
      .map((item) => ({ item, at: random(1_000_000) }))
      .sort((a, b) => a.at - b.at)
      .map(({ item }) => item)
  const accepted = own.toSpliced(random(size), made.refused)

  const ids = new Map(own.map((email, n) => [email, `r${random(2 ** 30)}-${n}`]))
  const idOf = (email: string): string => ids.get(email) ?? ''
  const requestIds = {
    nothing: null,
    list: accepted.map(idOf),
    'disordered list': shuffled(accepted).map(idOf),
    addresses: accepted,
    'sorted addresses': accepted.toSorted().toReversed(),
    map: Object.fromEntries(accepted.map((email) => [email, idOf(email)])),
  }[how.accepted]

  const aliased = made.alias === 'none' ? -1 : random(size)
  const nameOf = (email: string): string | undefined =>
    ({
      opaque: idOf(email),
      address: email,
      'shouted address': ` ${email.toUpperCase()}`,
      'from 0': String(own.indexOf(email)),
      'from 1': String(own.indexOf(email) + 1),
      none: undefined,
      place: undefined,
    })[how.naming]
  const dataOf = (email: string): Result['data'] => {
    const isMissing = missing.has(email)
    const says =
      how.echo === 'all' || (how.echo === 'found' && !isMissing) || (how.echo === 'some' && random(2) === 0)
    const isAliased = own.indexOf(email) === aliased
    const named = !isAliased
      ? email
      : made.alias === 'member'
        ? (own[random(size)] ?? email)
        : 'alias@y.example'
    if (isMissing) return says && how.kind !== 'domain' ? { email: named } : ([null, {}][random(2)] ?? null)
    return { title: `Title of ${email}`, confidence: 0.9, ...(says && { email: named }) }
  }
  const resultOf = (email: string): Result => ({
    request_id: nameOf(email),
    index: how.naming === 'place' ? own.indexOf(email) : undefined,
    data: dataOf(email),
  })

  const kept = accepted.toSpliced(random(Math.max(1, accepted.length)), made.dropped)
  let results = kept.map(resultOf)
  if (made.sharesIdentifier && results.length > 1) {
    const [from, to] = [random(results.length), random(results.length)]
    const { request_id, index } = results[from] ?? {}
    results = results.map((one, at) => (at === to ? { ...one, request_id, index } : one))
  }
  const mayBeLost = made.refused + made.dropped > 0 || how.parts > 1
  const repeatable = results.filter((one) => !mayBeLost || !isUnnamedMiss(one))
  for (let n = 0; n < made.repeated && repeatable.length > 0; n++)
    results.push(repeatable[random(repeatable.length)] as Result)
  for (let n = 0; n < made.foreign; n++) {
    const stranger = `stranger${n}@z.example`
    const id = how.naming.endsWith('address')
      ? stranger
      : how.naming === 'none' || how.naming === 'place'
        ? undefined
        : `f${random(1_000)}`
    results.push({
      request_id: id,
      data: { email: stranger, title: `Title of ${stranger}`, confidence: 0.9 },
    })
  }
  if (how.order === 'shuffled') results = shuffled(results)
  if (how.order === 'reversed') results = results.toReversed()

  const ownKind = <Value>(value: Value): Value => toKind(value, how.kind) as Value
  const known: ServiceJob[] = [
    {
      key: KEYS[0],
      jobId: 'job-1',
      addresses: own,
      identifiers: ownKind(own),
      requestIds: ownKind(requestIds),
    },
  ]
  if (made.jobIdTwice && others.length > 0) {
    // An older job may hold some of the same people.
    const addresses = shuffled([...others, ...own.filter(() => random(4) === 0)]).slice(0, Math.max(1, size))
    const identifiers = ownKind(addresses)
    known.push({ key: KEYS[1], jobId: 'job-1', addresses, identifiers, requestIds: null })
  }
  return {
    kind: how.kind,
    jobs: known,
    people,
    missing,
    isPlain: isPlain(how, made),
    isOrdered: how.declaresOrder,
    deliveries: ownKind(deliver(how, made, results, random)),
  }
}

/** The same of profiles or companies in place of addresses. */
function toKind(value: unknown, kind: Service['kind']): unknown {
  if (kind === 'email') return value
  if (typeof value === 'string') {
    const [, space = '', name] = /^( ?)(\w+)@[xyz]\.example$/i.exec(value) ?? []
    if (name === undefined) return value
    return space + (kind === 'domain' ? `${name}.example` : `https://www.linkedin.com/in/${name}`)
  }
  if (Array.isArray(value)) return value.map((one) => toKind(one, kind))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([field, one]) => [
      field === 'email' ? kind : toKind(field, kind),
      toKind(one, kind),
    ]),
  )
}

const KEYS = ['0a000000-0000-4000-8000-000000000001', '0a000000-0000-4000-8000-000000000000'] as const

function deliver(how: Form, made: Faults, results: readonly Result[], random: Random): Service['deliveries'] {
  // Where an order is declared, a result of no input must not look like one of an input.
  const isEmptied = (status: string | null): boolean =>
    status !== 'completed' && random(3) === 0 && !(how.declaresOrder && how.kind === 'domain')
  const emptied = (data: Result['data']): Result['data'] =>
    how.declaresOrder && data?.['email'] !== undefined ? { email: data['email'] } : null
  const cuts = Array.from({ length: how.parts - 1 }, () => random(results.length + 1)).sort((a, b) => a - b)
  const bounds = [0, ...cuts, results.length]
  const deliveries = bounds.slice(1).map((end, n) => {
    const status = n === how.parts - 1 ? how.last : how.progress
    const part = results.slice(bounds[n], end).map((result) =>
      // Before completion, an empty result says nothing about its input.
      isEmptied(status) ? { ...result, data: emptied(result.data) } : result,
    )
    const body = { event_id: `event-${n}`, job_id: 'job-1', status, results: part }
    return { address: made.address === 'own' ? KEYS[0] : null, body }
  })
  return made.redelivers ? [...deliveries, ...deliveries] : deliveries
}

/** Whether every result can be used: nothing is lost, and each can be attributed. */
function isPlain(how: Form, made: Faults): boolean {
  const { refused, dropped, repeated, foreign, sharesIdentifier, alias, jobIdTwice, address } = made
  if (refused + dropped + repeated + foreign > 0 || sharesIdentifier || alias !== 'none') return false
  if (how.last !== 'completed' || (how.parts > 1 && how.progress !== 'completed')) return false
  if (how.naming.endsWith('address') || (how.echo === 'all' && how.kind !== 'domain')) return true
  if (jobIdTwice && address === 'none') return false
  if (how.naming === 'place') return true
  if (how.naming === 'opaque' && how.accepted === 'map') return true
  if (!how.declaresOrder) return false
  if (how.naming === 'opaque' && how.accepted === 'list') return true
  // Results whose identifiers contradict those of the 202.
  const isAnnounced = how.accepted === 'map' || how.accepted.endsWith('list')
  if (how.naming.startsWith('from') && isAnnounced) return false
  return how.parts === 1 && (how.order === 'kept' || how.naming.startsWith('from'))
}

/** Mulberry32: the same service for the same seed, so that a failure can be reproduced. */
function randomFrom(seed: number): Random {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}
