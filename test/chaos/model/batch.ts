import { randomUUID } from 'node:crypto'
import pino from 'pino'
import { parseConfig } from '../../../src/config/parse.ts'
import { afterSubmit, type SubmitEvent } from '../../../src/domain/job.ts'
import { afterAsk, type AskEvent } from '../../../src/domain/lookup.ts'
import type { Deps } from '../../../src/pipeline/deps.ts'
import { Budget } from '../../../src/pipeline/pick/budget.ts'
import { beginPass, pickAgain, tick as pick } from '../../../src/pipeline/pick/pick.ts'
import { createReceiver, type Receive } from '../../../src/pipeline/receive.ts'
import * as recover from '../../../src/pipeline/recover.ts'
import * as settle from '../../../src/pipeline/settle/settle.ts'
import { undo } from '../../../src/pipeline/undo/undo.ts'
import * as writeBack from '../../../src/pipeline/write-back/write-back.ts'
import { openSource, type Source } from '../../../src/sources/source.ts'
import * as jobs from '../../../src/store/jobs.ts'
import * as leases from '../../../src/store/leases.ts'
import * as lookups from '../../../src/store/lookups.ts'
import * as runs from '../../../src/store/runs.ts'
import { signWebhook } from '../../../src/webhook/signature.ts'
import type { TestDatabase } from '../../support/clone.ts'
import {
  sharedCommand,
  WORKERS,
  worldCommand,
  type Drawn,
  type SharedCommand,
  type WorldCommand,
} from './commands.ts'
import { faultsOf, Model, type FinalLookup, type FinalRow } from './model.ts'

const SECRET = 'model-secret'
const HOUR = 3_600_000
const RULES = {
  attempts: 50,
  concurrency: 32,
  bulkMinimum: 1,
  bulkDeadlineMs: HOUR,
  refreshAfterMs: 1_000 * HOUR,
  retryNotFoundAfterMs: 1_000 * HOUR,
  sourceTimeoutMs: 60_000,
}
const config = parseConfig(
  {
    sources: {
      worlds: {
        kind: 'person',
        table: 'worlds',
        inputs: { email: 't.email' },
        outputs: { title: 'title', phone: { field: 'phone', policy: 'tracked' } },
      },
    },
  },
  null,
)

type Held = leases.LeasedLookup & { readonly key: string }
interface OpenJob {
  readonly id: string
  readonly token: string
  readonly emails: readonly string[]
  posted: boolean
  told: boolean
}

const record = (key: string) => ({ email: key, title: `T:${key}`, phone: `P:${key}`, confidence: 0.9 })
const where = (worlds: readonly number[]): string => `t.world = any ('{${worlds.join(',')}}'::int[])`

/**
 * Many worlds in one database, each going through a sequence of its own, in step: at each step the worlds that do the
 * same do it in one statement of the product, as it is made for. So a sequence costs about a millisecond a step, and it is
 * still the product's own SQL on a real Postgres that is held against the model.
 */
export class Batch {
  readonly #database: TestDatabase
  readonly #model = new Model()
  readonly #deps: Deps
  readonly #source: Source
  readonly #receive: Receive
  readonly #count: number
  #runs: number[] = []
  #held = new Map<number, Held[]>()
  #late = new Map<number, leases.Answer[]>()
  #jobs: OpenJob[] = []

  static async open(database: TestDatabase, count: number): Promise<Batch> {
    await database.pool.query(`
      drop table if exists worlds;
      truncate fillrate.rows, fillrate.lookups, fillrate.jobs, fillrate.deliveries, fillrate.changes, fillrate.runs restart identity cascade;
      create table worlds (id int primary key, world int not null, email text, title text, phone text);
      create index on worlds (world);
      insert into worlds (id, world, email)
      select w * 3 + r, w, 'w' || w || case when r = 2 then '-b' else '-a' end || '@example.com'
        from generate_series(0, ${count - 1}) w, generate_series(0, 2) r;
      analyze worlds`)
    const [mapping] = Object.values(config.sources)
    if (!mapping) throw new Error('there is no mapping')
    const batch = new Batch(database, count, await openSource(database.db, mapping))
    for (let worker = 0; worker < WORKERS; worker++) batch.#runs.push(await batch.#start())
    return batch
  }

  private constructor(database: TestDatabase, count: number, source: Source) {
    this.#database = database
    this.#count = count
    this.#source = source
    this.#receive = createReceiver(database.db, [SECRET])
    this.#deps = {
      db: database.db,
      sources: new Map([[source.name, source]]),
      log: pino({ level: 'silent' }),
      now: Date.now,
      random: () => 0,
      rules: RULES,
    }
    for (let world = 0; world < count; world++)
      for (const row of [0, 1, 2])
        this.#model.address(world * 3 + row, `w${world}${row === 2 ? '-b' : '-a'}@example.com`)
  }

  /** One step of all worlds, then one of what they share. */
  async step(drawn: readonly number[], shared: number): Promise<void> {
    const groups = new Map<string, { command: Drawn<WorldCommand>; worlds: number[] }>()
    drawn.slice(0, this.#count).forEach((number, world) => {
      const command = worldCommand(number)
      const name = `${command.name} ${command.worker} ${command.row}`
      const group = groups.get(name) ?? { command, worlds: [] }
      group.worlds.push(world)
      groups.set(name, group)
    })
    // Those that say the same but for what does not matter to them go together.
    const merged = new Map<string, { command: Drawn<WorldCommand>; worlds: number[] }>()
    for (const { command, worlds } of groups.values()) {
      const { name, worker, row } = command
      const key = `${name} ${OF_WORKER.has(name) ? worker : ''} ${OF_ROW.has(name) ? row : ''}`
      const group = merged.get(key) ?? { command, worlds: [] }
      group.worlds.push(...worlds)
      merged.set(key, group)
    }
    for (const { command, worlds } of merged.values()) await this.#world(command, worlds)
    await this.#shared(sharedCommand(shared))
  }

  async #world({ name, worker, row }: Drawn<WorldCommand>, worlds: readonly number[]): Promise<void> {
    switch (name) {
      case 'idle':
        return
      case 'pick':
        return this.#pick(worker, worlds)
      case 'call':
        return this.#call(worker, worlds)
      case 'found':
      case 'repeat': {
        const answers = await this.#answer(worlds, (key) => ({
          type: 'found',
          record: record(key),
          confidence: 0.9,
        }))
        if (name === 'repeat') await leases.answer(this.#deps.db, answers)
        return
      }
      case 'not_found':
        await this.#answer(worlds, () => ({ type: 'not_found' }))
        return
      case 'fault':
        await this.#answer(worlds, () => ({ type: 'fault', reason: 'server (500)', retryAfterMs: null }))
        return
      case 'crash':
        for (const world of worlds) this.#held.delete(world)
        return
      case 'hold':
        return this.#hold(worlds)
      case 'late':
        return this.#answerLate(worlds)
      case 'change_input':
        return this.#changeInput(worlds, row)
      case 'edit_title':
      case 'edit_phone':
        return this.#edit(worlds, row, name === 'edit_title' ? 'title' : 'phone')
    }
  }

  async #shared({ name, worker }: Drawn<SharedCommand>): Promise<void> {
    switch (name) {
      case 'none':
        return
      case 'submit':
      case 'crash_before_post':
        return this.#submit(worker, name === 'submit')
      case 'accept':
        return this.#tell({ type: 'accepted', jobId: null, requestIds: null })
      case 'lose_202':
        return this.#tell({ type: 'unknown', reason: 'connection' })
      case 'deliver':
      case 'deliver_half':
      case 'deliver_failed':
      case 'deliver_twice':
      case 'deliver_foreign':
        return this.#deliver(name)
      case 'settle':
        while ((await settle.tick(this.#deps)).deliveries > 0);
        return
      case 'write_back':
        while ((await writeBack.tick(this.#deps, this.#source)).rows > 0);
        return
      case 'pick_again':
        return this.#pickAgain(worker)
      case 'expire_leases':
        await this.#database.pool.query(
          `update fillrate.lookups set leased_until = now() - interval '1 s' where state = 'leased'`,
        )
        await recover.tick(this.#deps, null)
        return
      case 'pass_deadlines':
        await this.#database.pool
          .query(`update fillrate.jobs set leased_until = now() - interval '1 s' where leased_until is not null;
          update fillrate.jobs set deadline_at = now() - interval '1 s' where finished_at is null`)
        await recover.tick(this.#deps, null)
        await recover.tick(this.#deps, null)
        return
      case 'worker_dies':
        await this.#die(worker)
        return
      case 'undo':
        await this.#die(worker, true)
    }
  }

  #start(): Promise<number> {
    return runs.start(this.#deps.db, {
      trigger: 'manual',
      sources: ['worlds'],
      options: { limit: null, budget: null, where: null, route: 'auto' },
      owner: 'model',
      token: randomUUID(),
      leaseMs: HOUR,
    })
  }

  async #pick(worker: number, worlds: readonly number[]): Promise<void> {
    const options = { limit: null, where: where(worlds) }
    const pass = await beginPass(this.#deps, this.#source, options)
    const run = { id: this.#runs[worker] ?? 0, budget: new Budget(null), dry: false }
    while (pass.phase !== 'done') await pick(this.#deps, run, pass, options)
  }

  /** What was sent back, because its inputs changed, and what dead runs left behind: rows, and lookups that our rows want. */
  async #pickAgain(worker: number): Promise<void> {
    const run = { id: this.#runs[worker] ?? 0, budget: new Budget(null), dry: false }
    const { signal } = new AbortController()
    const live = (await runs.live(this.#deps.db)).map((one) => one.id)
    await lookups.adopt(this.#deps.db, run.id, live, 10_000)
    await pickAgain(this.#deps, run, this.#source, { leftBehind: true, signal })
  }

  async #call(worker: number, worlds: readonly number[] | null): Promise<void> {
    // A lease takes what waits: the other worlds' lookups do not, for this moment.
    if (worlds !== null)
      await this.#database.pool.query(
        `update fillrate.lookups set not_before = case when substring(key from '^w(\\d+)-')::int = any ($1::int[]) then null else timestamptz 'infinity' end
          where state = 'pending'`,
        [worlds],
      )
    const lease = { run: this.#runs[worker] ?? 0, limit: 100_000, token: randomUUID(), leaseMs: HOUR }
    const leased = await leases.lease(this.#deps.db, { ...lease, emails: true })
    await this.#database.pool.query(
      `update fillrate.lookups set not_before = null where not_before is not null`,
    )
    for (const lookup of leased) {
      const key = lookup.input['email'] ?? ''
      const world = Number(/^w(\d+)-/.exec(key)?.[1])
      this.#held.set(world, [...(this.#held.get(world) ?? []), { ...lookup, key }])
      this.#model.pay(key)
    }
  }

  /** The answers of all calls under way in these worlds, stored in one write. */
  async #answer(worlds: readonly number[], event: (key: string) => AskEvent): Promise<leases.Answer[]> {
    const held = worlds.flatMap((world) => this.#held.get(world) ?? [])
    for (const world of worlds) this.#held.delete(world)
    const answers = held.map((lookup) => this.#answerTo(lookup, event(lookup.key)))
    await leases.answer(this.#deps.db, answers)
    return answers
  }

  #answerTo(lookup: Held, event: AskEvent): leases.Answer {
    if (event.type === 'found') this.#model.given.add(lookup.key)
    if (event.type === 'fault') this.#model.pay(lookup.key, -1)
    return {
      id: lookup.id,
      token: lookup.token,
      ...afterAsk(lookup, event, RULES, Date.now(), 0),
      notBefore: null,
    }
  }

  /** The process is paused with the answer in its hands. */
  #hold(worlds: readonly number[]): void {
    for (const world of worlds) {
      const answers = (this.#held.get(world) ?? []).map((lookup) => ({
        id: lookup.id,
        token: lookup.token,
        ...afterAsk(
          lookup,
          { type: 'found', record: record(lookup.key), confidence: 0.9 },
          RULES,
          Date.now(),
          0,
        ),
      }))
      this.#held.delete(world)
      this.#late.set(world, [...(this.#late.get(world) ?? []), ...answers])
    }
  }

  async #answerLate(worlds: readonly number[]): Promise<void> {
    const answers = worlds.flatMap((world) => this.#late.get(world) ?? [])
    for (const world of worlds) this.#late.delete(world)
    const unique = new Map(answers.map((answer) => [answer.id, answer]))
    await leases.answer(this.#deps.db, [...unique.values()])
  }

  async #changeInput(worlds: readonly number[], row: number): Promise<void> {
    await this.#database.pool.query(
      `update worlds set email = 'w' || world || '-c${row}@example.com' where id = any ($1::int[])`,
      [worlds.map((world) => world * 3 + row)],
    )
    for (const world of worlds) this.#model.address(world * 3 + row, `w${world}-c${row}@example.com`)
  }

  async #edit(worlds: readonly number[], row: number, column: 'title' | 'phone'): Promise<void> {
    const ids = worlds.map((world) => world * 3 + row)
    await this.#database.pool.query(
      `update worlds set ${column} = 'typed in row ' || id where id = any ($1::int[])`,
      [ids],
    )
    for (const id of ids) this.#model.typed.set(`${id} ${column}`, `typed in row ${id}`)
  }

  async #submit(worker: number, posts: boolean): Promise<void> {
    const token = randomUUID()
    const made = await jobs.create(this.#deps.db, {
      run: this.#runs[worker] ?? 0,
      ids: [randomUUID(), randomUUID()],
      least: 1,
      token,
      leaseMs: HOUR,
      deadlineMs: HOUR,
    })
    for (const { id, emails } of made) {
      this.#jobs.push({ id, token, emails, posted: posts, told: !posts })
      if (posts) for (const email of emails) this.#model.pay(email)
    }
  }

  /** What becomes of the submissions that nobody has heard of. */
  async #tell(event: SubmitEvent): Promise<void> {
    const waiting = this.#jobs.filter((job) => !job.told)
    for (const job of waiting) job.told = true
    await jobs.submitted(
      this.#deps.db,
      waiting.map(({ id, token }) => ({
        id,
        token,
        ...afterSubmit({ attempt: 1 }, event, RULES, Date.now(), 0),
        ...(event.type === 'accepted' && { jobId: `service-${id}` }),
      })),
    )
  }

  async #deliver(how: SharedCommand): Promise<void> {
    const at = this.#jobs.findIndex((job) => job.posted)
    const job = this.#jobs[at]
    if (!job) return
    const half = how === 'deliver_half'
    const emails = half ? job.emails.filter((_, n) => n % 2 === 0) : job.emails
    const failed = how === 'deliver_failed'
    const results = emails.map((email) => ({ request_id: email, data: failed ? null : record(email) }))
    const foreign = [
      { request_id: 'never-asked@example.com', data: record('never-asked@example.com') },
      { request_id: null, data: record('nobody@example.com') },
    ]
    const event = {
      event_id: randomUUID(),
      job_id: `service-${job.id}`,
      status: failed ? 'failed' : 'completed',
      results: how === 'deliver_foreign' ? [...foreign, ...results] : results,
    }
    const posts = [this.#post(event, job.id)]
    if (how === 'deliver_twice') posts.push(this.#post(event, job.id))
    if (how === 'deliver_foreign')
      posts.push(this.#post({ ...event, event_id: randomUUID(), job_id: 'of-another' }, randomUUID()))
    await Promise.all(posts)
    if (!failed) for (const email of emails) this.#model.given.add(email)
    this.#jobs.splice(at, 1)
  }

  #post(event: object, job: string): Promise<unknown> {
    const body = Buffer.from(JSON.stringify(event))
    return this.#receive({ body, signature: signWebhook(body, SECRET), job })
  }

  /** A worker's process is gone; another starts. @param andUndo what it has written is taken back */
  async #die(worker: number, andUndo = false): Promise<boolean> {
    const dead = this.#runs[worker] ?? 0
    await this.#database.pool.query(
      `update fillrate.runs set leased_until = now() - interval '1 s' where id = $1`,
      [dead],
    )
    await recover.tick(this.#deps, null)
    this.#runs[worker] = await this.#start()
    if (!andUndo) return false
    const signal = new AbortController().signal
    await undo({ ...this.#deps, owner: 'model' }, { run: dead, dryRun: false, signal })
    return true
  }

  /** Lets everything come to rest, and holds it against the model. */
  async judge(): Promise<string[]> {
    const all = Array.from({ length: this.#count }, (_, world) => world)
    this.#held.clear()
    await this.#answerLate(all)
    await this.#tell({ type: 'unknown', reason: 'connection' })
    for (let round = 0; round < 8; round++) {
      for (const name of ['expire_leases', 'settle', 'pass_deadlines'] as const)
        await this.#shared({ name, worker: 0, row: 0 })
      if (round === 0) for (let worker = 1; worker < WORKERS; worker++) await this.#die(worker)
      await this.#pick(0, all)
      await this.#pickAgain(0)
      await this.#call(0, null)
      await this.#answer(all, (key) => ({ type: 'found', record: record(key), confidence: 0.9 }))
      await this.#shared({ name: 'write_back', worker: 0, row: 0 })
      const { rows } = await this.#database.pool.query<{ open: number }>(
        `select count(*)::int as open from worlds t left join fillrate.rows r on r.key = t.id::text where r.state = 'waiting'`,
      )
      if (rows[0]?.open === 0 && round > 0) break
    }
    const { rows } = await this.#database.pool.query<FinalRow>(
      `select t.id, t.email, t.title, t.phone, r.state, exists (select from fillrate.changes c where c.key = t.id::text and c.undone_by is not null) as undone,
              concat_ws(' ', r.state, r.reason, 'run', r.run, 'lookup', l.id, l.state, l.run, l.single, l.not_before, (select true from fillrate.unwritten u where u.lookup = l.id), l.reason) as why
         from worlds t left join fillrate.rows r on r.key = t.id::text left join fillrate.lookups l on l.id = r.lookup`,
    )
    const { rows: asked } = await this.#database.pool.query<FinalLookup>(
      `select key, state, record ->> 'title' as title, in_doubt, single from fillrate.lookups`,
    )
    return faultsOf(this.#model, rows, asked)
  }
}

const OF_WORKER: ReadonlySet<WorldCommand> = new Set(['pick', 'call'])
const OF_ROW: ReadonlySet<WorldCommand> = new Set(['change_input', 'edit_title', 'edit_phone'])
