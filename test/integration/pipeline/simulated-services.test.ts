import pino from 'pino'
import * as polls from '../../../src/store/job-polls.ts'
import * as jobs from '../../../src/store/jobs.ts'
import * as leases from '../../../src/store/lookup-leases.ts'
import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test, vi } from 'vitest'
import { afterCall } from '../../../src/domain/lookup.ts'
import type { CallDeps } from '../../../src/pipeline/deps.ts'
import { withStatedCredits } from '../../../src/domain/service/service.ts'
import { roundCredits } from '../../../src/domain/spend.ts'
import { settleUnstored } from '../../../src/pipeline/erasure.ts'
import { toAnswer } from '../../../src/pipeline/look-up/look-up.ts'
import { callService } from '../../../src/pipeline/look-up/call-service.ts'
import { pollJob, recordPolls } from '../../../src/pipeline/poll.ts'
import { toFetchedDelivery } from '../../../src/pipeline/receive.ts'
import { recoverAbandoned } from '../../../src/pipeline/recover.ts'
import { settleReceived } from '../../../src/pipeline/settle.ts'
import { recordSubmissions, toSubmissionResult, postJob } from '../../../src/pipeline/submit.ts'
import { Breaker } from '../../../src/service/breaker.ts'
import { EnrichmentClient } from '../../../src/service/client.ts'
import { insertDeliveries } from '../../../src/store/deliveries.ts'
import { listDaySpend } from '../../../src/store/spend.ts'
import { insertSuppressions } from '../../../src/store/suppressions.ts'
import { inTransaction } from '../../../src/store/transaction.ts'
import { useTestDatabase } from '../../support/database.ts'
import { LOOKUPS, nameIn, PEOPLE, SETTLING, World } from '../../support/simulated-worlds.ts'
import { serveRaw } from '../../unit/service/loopback-service.ts'
import { beginRun } from '../../support/test-run.ts'

// Services that answer oddly, each in its own way, through the product's own steps, SQL and HTTP; a step of all of them is
// one statement. Time passes between rounds: whatever waits is due. The limiter has simulations of its own.

/** A few hundred here, 10,000 with `SIMULATED_SERVICES=10000`. */
const SERVICES = Number(process.env['SIMULATED_SERVICES'] ?? 200)
const SEED = Number(process.env['SIMULATED_SEED'] ?? 1)
const BATCH = 500
const ROUNDS = 60
/** Of one input of a service that is down now and then: calls of an outage are no attempts. */
const MOST_CALLS = 25
const HOUR = 3_600_000
const log = pino({ level: 'silent' })
const observer = { banMs: 0, sent() {}, answered() {}, lost() {}, end() {} }
const RULES = { attempts: 5, refreshAfterMs: 1_000 * HOUR, retryNotFoundAfterMs: 1_000 * HOUR }

const database = useTestDatabase()

/** Its run is over: the job waits for the next one. */
const NOT_POSTED: Awaited<ReturnType<typeof postJob>> = {
  event: {
    type: 'not_accepted',
    reason: 'its run is over',
    retryAfterMs: null,
    countsAsAttempt: false,
    mayBeBilled: false,
  },
  stop: null,
  cost: undefined,
  delivery: null,
}

interface Caller {
  readonly world: World
  readonly deps: CallDeps
  readonly breaker: WatchedBreaker
  /** The run is over before its lookups are: a key or a setting is wrong, or the service is down. */
  over: 'no' | 'stopped' | 'down'
  roundsDown: number
}

class WatchedBreaker extends Breaker {
  /** It was open once: what failed until it closed is no attempt of an input. */
  wasDown = false

  override async execute<T>(...args: Parameters<typeof Breaker.prototype.execute<T>>): Promise<T> {
    try {
      return await super.execute(...args)
    } finally {
      this.wasDown ||= this.state !== 'closed'
    }
  }
}

class Batch {
  readonly #callers = new Map<string, Caller>()
  readonly #run: number
  /** Jobs that were accepted and are not delivered yet. */
  readonly #accepted: { readonly id: string; readonly caller: Caller; readonly names: readonly string[] }[] =
    []

  constructor(worlds: readonly World[], baseUrl: string, run: number) {
    this.#run = run
    for (const world of worlds) {
      const { adapter } = world
      const client = new EnrichmentClient({
        baseUrl: `${baseUrl}/${world.name}`,
        apiKey: 'key',
        service: adapter,
        connections: PEOPLE,
      })
      const breaker = new WatchedBreaker()
      const deps = {
        db: database.db,
        client,
        breaker,
        adapter,
        log,
        now: Date.now,
        random: () => 0,
        policy: { ...RULES, bulk: { deadlineMs: HOUR, graceMs: 0 }, timeoutMs: 30_000 },
        webhookUrl: world.mode === 'webhook' ? (job: string) => `http://127.0.0.1/${job}` : null,
      } as unknown as CallDeps
      this.#callers.set(world.name, { world, deps, breaker, over: 'no', roundsDown: 0 })
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#callers.values()].map(({ deps }) => deps.client.close()))
  }

  /** @param value names somebody whom a service is asked for */
  #callerOf(value: unknown): Caller {
    const [world = ''] = nameIn(value).split('-')
    const caller = this.#callers.get(world)
    if (caller === undefined) throw new Error(`nobody looks up ${JSON.stringify(value)}`)
    return caller
  }

  get #deps(): CallDeps {
    const [first] = this.#callers.values()
    if (first === undefined) throw new Error('an empty batch')
    return first.deps
  }

  async round(number: number): Promise<void> {
    // Longer than the longest Retry-After.
    vi.advanceTimersByTime(25 * HOUR)
    await database.query(`
      update fillrate.lookups set not_before = null where not_before is not null;
      update fillrate.jobs set not_before = now() - interval '1 s' where not_before is not null;
      update fillrate.jobs set poll_at = now() - interval '1 s' where poll_at is not null;
      update fillrate.jobs set release_at = now() - interval '1 s' where release_at is not null`)
    await this.#submit()
    await this.#poll()
    await this.#deliver()
    while ((await settleReceived({ ...this.#deps, adapter: SETTLING })).deliveries > 0);
    if (number % 4 === 3)
      await database.query(
        `update fillrate.jobs set deadline_at = now() - interval '1 s' where state in ('submitted', 'in_doubt')`,
      )
    await recoverAbandoned(this.#deps, [this.#run])
    await this.#lookUp()
    for (const caller of this.#callers.values()) {
      caller.roundsDown = caller.breaker.state === 'closed' ? 0 : caller.roundsDown + 1
      // A run does not wait for a service that has been down for a quarter of an hour.
      if (caller.roundsDown >= 3 && caller.over === 'no') caller.over = 'down'
    }
  }

  async #submit(): Promise<void> {
    const token = randomUUID()
    const lease = { run: this.#run, service: 0, token, leaseMs: HOUR }
    const again = await jobs.leaseJobsForRetry(database.db, { ...lease, limit: 10_000 })
    const created: jobs.OutgoingJob[] = []
    // All of a service are of one kind, and so of one job.
    for (const kind of Object.keys(LOOKUPS) as (keyof typeof LOOKUPS)[]) {
      const ids = Array.from({ length: this.#callers.size }, () => randomUUID())
      const job = { ...lease, service: 0, ids, kinds: [kind], least: 1, size: PEOPLE, deadlineMs: HOUR }
      created.push(...(await jobs.createJobs(database.db, job)))
    }
    const results = await Promise.all(
      [...again, ...created].map(async (job) => {
        const caller = this.#callerOf(job.inputs[0])
        const posted = caller.over === 'no' ? await postJob(caller.deps, job, observer) : NOT_POSTED
        if (posted.stop !== null) caller.over = 'stopped'
        const accepted = posted.event.type === 'accepted' && posted.delivery === null
        if (accepted && caller.world.mode === 'webhook')
          this.#accepted.push({ id: job.id, caller, names: job.inputs.map(nameIn) })
        return toSubmissionResult(caller.deps, job, token, posted)
      }),
    )
    await recordSubmissions(this.#deps, results)
  }

  async #deliver(): Promise<void> {
    const deliveries = this.#accepted.splice(0).flatMap(({ id, caller: { world }, names }) => {
      if (world.delivers === 'nothing') return []
      const isFailed = world.delivers === 'failed'
      const delivery = withStatedCredits({
        status: isFailed ? ('failed' as const) : ('completed' as const),
        ...(isFailed ? { results: [] } : world.delivery(names)),
      })
      return Array.from({ length: world.delivers === 'twice' ? 2 : 1 }, () =>
        toFetchedDelivery(randomUUID(), id, { delivery, raw: null }),
      )
    })
    await inTransaction(database.db, (tx) => insertDeliveries(tx, deliveries, null))
  }

  async #poll(): Promise<void> {
    // Pages follow each other at once.
    for (let page = 0; page <= PEOPLE && (await this.#pollDue()) > 0; page++)
      await database.query(
        `update fillrate.jobs set poll_at = now() - interval '1 s' where state = 'submitted' and cursor is not null and pages > ${page}`,
      )
  }

  /** @returns how many jobs were fetched */
  async #pollDue(): Promise<number> {
    const due = await polls.claimDueJobs(database.db, { scope: 'simulated', limit: 10_000, leaseMs: HOUR })
    const read = await Promise.all(
      due.map(async (job) => {
        const caller = this.#callerOf(job.inputs[0])
        const poll = await pollJob(caller.deps, job, observer)
        if (poll.stop !== null) caller.over = 'stopped'
        return poll
      }),
    )
    const poller = [...this.#callers.values()].find(({ world }) => world.mode === 'poll')
    if (read.length > 0 && poller) await recordPolls(poller.deps, read)
    return read.length
  }

  async #lookUp(): Promise<void> {
    const leased = await leases.leaseLookups(database.db, {
      run: this.#run,
      service: 0,
      limit: 100_000,
      token: randomUUID(),
      leaseMs: HOUR,
    })
    const results = await Promise.all(leased.map((lookup) => this.#call(lookup)))
    const erased = [...this.#callers.values()].flatMap(({ world }) => world.erased ?? [])
    await inTransaction(database.db, (tx) =>
      insertSuppressions(
        tx,
        erased.map((key) => ({ kind: 'email' as const, key })),
      ),
    )
    const { unstored } = await leases.completeLookups(
      database.db,
      results.flatMap((result) => result ?? []),
    )
    await settleUnstored(database.db, unstored)
  }

  /** As `lookUpBatch` does. */
  async #call(lookup: leases.LeasedLookup): Promise<leases.LookupResult | null> {
    const caller = this.#callerOf(lookup.input)
    const base = { id: lookup.id, token: lookup.token, requestedAt: new Date(Date.now()) }
    if (caller.over !== 'no') {
      const event = { type: 'released', reason: 'its run is over', retryAfterMs: null } as const
      return { ...base, ...afterCall(lookup, event, RULES, Date.now(), 0) }
    }
    const outcome = await callService(caller.deps, lookup, observer, new AbortController().signal)
    if (outcome.event === null) {
      await jobs.createFromAsyncAnswer(database.db, lookup, outcome.asyncJobId, this.#run, HOUR)
      return null
    }
    if (outcome.stop !== null) caller.over = 'stopped'
    return toAnswer(caller.deps, lookup, base.requestedAt, outcome).result
  }

  /** What does not hold; empty if everything does. */
  async check(): Promise<string[]> {
    const faults: string[] = []
    const rows = await database.query<{
      key: string
      state: string
      reason: string | null
      title: string | null
    }>(`select key, state, reason, record ->> 'title' as title from fillrate.lookups where run_id = $1`, [
      this.#run,
    ])
    for (const { key, title } of rows)
      if (title !== null && title !== `Title of ${nameIn(key)}`) faults.push(`${key} has another's record`)
    for (const { key, state, reason } of rows)
      if (['pending', 'leased', 'submitted'].includes(state) && this.#callerOf(key).over === 'no')
        faults.push(`${key} is still ${state}: ${reason}`)
    const spend = await listDaySpend(database.db, 1)
    for (const { world, breaker } of this.#callers.values()) {
      // Five times, and as often after a job of its own (202) that was not delivered.
      const most = breaker.wasDown ? MOST_CALLS : 2 * RULES.attempts
      for (const [what, counted] of [
        ['called', world.calls],
        ['posted in a job', world.posts],
      ] as const)
        for (const [email, times] of counted)
          if (times > most) faults.push(`${email} was ${what} ${times} times`)
      const counts = spend.filter(({ source }) => source === world.name)
      const lookups = counts.reduce((sum, one) => sum + one.lookups, 0)
      const doubt = counts.reduce((sum, one) => sum + one.in_doubt, 0)
      if (world.billed < lookups || world.billed > lookups + doubt)
        faults.push(
          `${world.name} (${world.mode}) billed ${world.billed}, counted ${lookups} and ${doubt} in doubt`,
        )
      const toTenths = (parts: readonly number[]): number =>
        roundCredits(10 * parts.reduce((sum, part) => sum + part, 0))
      const tenths = toTenths(counts.map((one) => one.credits ?? 0))
      const mostTenths = toTenths(counts.map((one) => (one.credits ?? 0) + (one.credits_in_doubt ?? 0)))
      if (world.billedTenths > mostTenths || (world.isExact && world.billedTenths !== tenths))
        faults.push(
          `${world.name} (${world.mode}, ${world.states}) billed ${world.billedTenths} tenths, counted ${tenths}, at most ${mostTenths}`,
        )
    }
    return faults
  }

  async isDone(): Promise<boolean> {
    const rows = await database.query<{ key: string }>(
      `select key from fillrate.lookups where run_id = $1 and state in ('pending', 'leased', 'submitted')`,
      [this.#run],
    )
    return rows.every(({ key }) => this.#callerOf(key).over !== 'no')
  }
}

async function simulate(worlds: readonly World[], baseUrl: string): Promise<string[]> {
  const run = await beginRun(database.db, { sources: [], leaseMs: 1_000 * HOUR, scopes: { 0: 'simulated' } })
  const lookups = worlds.flatMap((world) => world.names.map((name) => ({ world, ...world.lookupOf(name) })))
  await database.query(
    `insert into fillrate.lookups (kind, key, input, state, run_id, source, sync_only)
     select kind, key, input::jsonb, 'pending', $1, source, is_single
       from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[]) as v (kind, key, input, source, is_single)`,
    [
      run,
      lookups.map(({ world }) => world.kind),
      lookups.map(({ key }) => key),
      lookups.map(({ input }) => JSON.stringify(input)),
      lookups.map(({ world }) => world.name),
      lookups.map(({ world }) => world.mode === 'single'),
    ],
  )
  const batch = new Batch(worlds, baseUrl, run)
  try {
    for (let round = 0; round < ROUNDS && !(await batch.isDone()); round++) await batch.round(round)
    return await batch.check()
  } finally {
    await batch.close()
  }
}

test(`${SERVICES} services: every run ends, calls are bounded, and the bill is between lookups and those in doubt`, async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const byName = new Map<string, World>()
  const { baseUrl } = await serveRaw(({ path, body }) => {
    const [, name = '', ...rest] = path.split('/')
    const world = byName.get(name)
    if (world === undefined) throw new Error(`there is no service ${name}`)
    return world.respond(`/${rest.join('/')}`, body)
  })
  const faults: string[] = []
  for (let first = 0; first < SERVICES; first += BATCH) {
    const size = Math.min(BATCH, SERVICES - first)
    const worlds = Array.from({ length: size }, (_, n) => new World(first + n, SEED))
    for (const world of worlds) byName.set(world.name, world)
    faults.push(...(await simulate(worlds, baseUrl)))
  }
  expect(faults.slice(0, 20)).toEqual([])
})
