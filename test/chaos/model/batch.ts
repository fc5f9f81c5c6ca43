import { randomUUID } from 'node:crypto'
import pino from 'pino'
import type { Deps } from '../../../src/pipeline/deps.ts'
import { RunBudget } from '../../../src/pipeline/pick/budget.ts'
import { createPass } from '../../../src/pipeline/pick/pass.ts'
import { repick, pickPage as pick } from '../../../src/pipeline/pick/pick.ts'
import * as recover from '../../../src/pipeline/recover.ts'
import * as settle from '../../../src/pipeline/settle.ts'
import * as writeBack from '../../../src/pipeline/write-back.ts'
import { foldRowCounts } from '../../../src/store/rows.ts'
import { openSource } from '../../../src/sources/source.ts'
import type { Source } from '../../../src/sources/source-model.ts'
import * as leases from '../../../src/store/lookup-leases.ts'
import * as lookups from '../../../src/store/lookups.ts'
import * as runs from '../../../src/store/runs.ts'
import type { TestDatabase } from '../../support/clone.ts'
import { findMiscounted, findMisnamedFailures } from '../invariants.ts'
import { Calls, type Leased } from './calls.ts'
import {
  groupWorlds,
  serviceOf,
  sharedCommand,
  WORKERS,
  type Drawn,
  type SharedCommand,
  type WorldCommand,
} from './commands.ts'
import { Jobs, SERVICE } from './jobs.ts'
import { Maintenance } from './maintenance.ts'
import { Ownership } from './ownership.ts'
import { BULK } from '../../support/bulk.ts'
import { People } from './people.ts'
import {
  config,
  findViolations,
  HOUR,
  ModelState,
  readFinalState,
  foundEvent,
  RULES,
  scopeOf,
  SERVICES,
  where,
} from './model-state.ts'
import { beginRun } from '../../support/test-run.ts'

/**
 * Autovacuum locks a table to shorten it. On a busy machine it may hold that lock for longer than Fillrate waits for one, which
 * then leaves its batch for later: here only users hold locks, so that each row that is left is explained.
 */
const NO_AUTOVACUUM = `
  do $$ declare name regclass; begin
    for name in select oid from pg_class where relkind = 'r' and relnamespace in ('fillrate'::regnamespace, 'public'::regnamespace) loop
      execute format('alter table %s set (autovacuum_enabled = false, toast.autovacuum_enabled = false)', name);
    end loop;
  end $$`

/**
 * Many worlds in one database. Each goes through its own sequence of commands, in step with the others: worlds with the
 * same command at a step execute it in one statement of the product. So a sequence costs about a millisecond a step, and
 * it is still the product's own SQL on a real Postgres that is compared with the model.
 */
export class Batch {
  readonly #database: TestDatabase
  readonly #model = new ModelState()
  readonly #deps: Deps
  readonly #source: Source
  readonly #calls: Calls
  readonly #jobs: Jobs
  readonly #ownership: Ownership
  readonly #people: People
  readonly #maintenance: Maintenance
  readonly #count: number
  #runs: number[] = []

  static async open(database: TestDatabase, count: number): Promise<Batch> {
    await database.pool.query(`
      drop table if exists worlds, slow cascade; drop function if exists be_slow;
      truncate fillrate.rows, fillrate.lookups, fillrate.jobs, fillrate.deliveries, fillrate.changes, fillrate.runs,
        fillrate.skipped_cells, fillrate.suppressions restart identity cascade;
      create table public.worlds (id int primary key, world int not null, email text, title text, seniority text, phone text);
      create index on worlds (world);
      insert into worlds (id, world, email)
      select w * 3 + r, w, 'w' || w || case when r = 2 then '-b' else '-a' end || '@example.com'
        from generate_series(0, ${count - 1}) w, generate_series(0, 2) r;
      ${People.tables}
      analyze worlds;
      ${NO_AUTOVACUUM}`)
    const [mapping] = Object.values(config.sources)
    if (!mapping) throw new Error('the configuration has no source')
    const batch = new Batch(database, count, await openSource(database.db, mapping))
    for (let worker = 0; worker < WORKERS; worker++) batch.#runs.push(await batch.#start(worker))
    // Half of the worlds begin with values that two runs have written.
    for (const part of [0, 1]) await batch.#enrich(part, part)
    return batch
  }

  private constructor(database: TestDatabase, count: number, source: Source) {
    this.#database = database
    this.#count = count
    this.#source = source
    this.#calls = new Calls(database, this.#model)
    this.#jobs = new Jobs(database, this.#model)
    this.#ownership = new Ownership(database.pool)
    this.#people = new People(database, this.#model, this.#ownership)
    this.#deps = {
      db: database.db,
      sources: new Map([[source.name, source]]),
      log: pino({ level: 'silent' }),
      now: Date.now,
      random: () => 0,
      policy: RULES,
      service: 0,
      adapter: SERVICE,
    }
    this.#maintenance = new Maintenance(
      { database, deps: this.#deps, source },
      { model: this.#model, ownership: this.#ownership, people: this.#people },
    )
    for (let world = 0; world < count; world++)
      for (const row of [0, 1, 2])
        this.#model.addAddress(world * 3 + row, `w${world}${row === 2 ? '-b' : '-a'}@example.com`)
  }

  /** One step of every world, then one shared command. */
  async step(drawn: readonly number[], shared: number): Promise<void> {
    for (const { command, worlds } of groupWorlds(drawn.slice(0, this.#count)))
      await this.#world(command, worlds)
    await this.#shared(sharedCommand(shared))
  }

  async #world({ name, worker, row }: Drawn<WorldCommand>, worlds: readonly number[]): Promise<void> {
    switch (name) {
      case 'idle':
        return
      case 'pick':
        return this.#pick(worker, worlds)
      case 'call':
        this.#calls.start(await this.#lease(worlds))
        return
      case 'lease':
        this.#calls.keepReady(await this.#lease(worlds))
        return
      case 'call_leased':
        return this.#calls.callReady(worlds)
      case 'release':
        return this.#calls.releaseReady(worlds)
      case 'found':
      case 'repeat': {
        const answers = await this.#calls.answer(worlds, 'oldest', foundEvent)
        if (name === 'repeat') await leases.completeLookups(this.#deps.db, answers)
        return
      }
      case 'not_found':
        await this.#calls.answer(worlds, 'newest', () => ({ type: 'not_found' }))
        return
      case 'server_error':
        await this.#calls.answer(worlds, 'oldest', () => ({
          type: 'transient_error',
          reason: 'server (500)',
          retryAfterMs: null,
        }))
        return
      case 'crash':
        return this.#calls.crash(worlds)
      case 'expire':
        await this.#calls.expire(worlds)
        await recover.recoverAbandoned(this.#deps, null)
        return
      case 'pause_process':
        return this.#calls.pause(worlds)
      case 'resume_process':
        return this.#calls.resume(worlds)
      default:
        return this.#people.inParts(worlds, (part) => this.#edit(name, part, row))
    }
  }

  async #edit(name: WorldCommand, worlds: readonly number[], row: number): Promise<void> {
    switch (name) {
      case 'change_input':
        return this.#people.changeInput(worlds, row, `c${row}`)
      case 'change_back':
        return this.#people.changeInput(worlds, row, row === 2 ? 'b' : 'a')
      case 'change_and_empty':
        return this.#people.changeInput(worlds, row, `d${row}`, true)
      case 'reuse_key':
        return this.#people.reuseKey(worlds, row)
      case 'delete_row':
        return this.#people.deleteRow(worlds, row)
      case 'insert_row':
        return this.#people.insertRow(worlds, row)
      case 'reload':
        return this.#people.reload(worlds)
      case 'edit_title':
      case 'edit_phone':
        return this.#people.edit(worlds, row, name === 'edit_title' ? 'title' : 'phone')
      case 'lock_row':
        return this.#people.lock(worlds, row)
      default:
        throw new Error(`no user does ${name}`)
    }
  }

  async #shared({ name, worker, row }: Drawn<SharedCommand>): Promise<void> {
    switch (name) {
      case 'none':
        return
      case 'submit':
      case 'crash_before_post':
        return this.#jobs.submit(this.#runs[worker] ?? 0, serviceOf(worker), name === 'submit')
      case 'accept':
        return this.#jobs.recordSubmissions({ type: 'accepted', jobId: null, requestIds: null })
      case 'lose_202':
        return this.#jobs.recordSubmissions({ type: 'unconfirmed', reason: 'connection' })
      case 'deliver':
      case 'deliver_half':
      case 'deliver_failed':
      case 'deliver_twice':
      case 'deliver_foreign':
        return this.#jobs.deliver(name)
      case 'settle':
        this.#calls.markUncertain(this.#model.returned)
        while ((await settle.settleReceived(this.#deps)).deliveries > 0);
        return
      case 'write_back':
        return this.#writeBack()
      case 'repick':
        return this.#repick(worker)
      case 'pass_deadlines':
        await this.#database.pool
          .query(`update fillrate.jobs set leased_until = now() - interval '1 s' where leased_until is not null;
          update fillrate.jobs set deadline_at = now() - interval '1 s' where finished_at is null`)
        await recover.recoverAbandoned(this.#deps, null)
        await recover.recoverAbandoned(this.#deps, null)
        return
      case 'worker_dies':
        await this.#die(worker)
        return
      case 'enrich':
        return this.#enrich(worker, row)
      case 'undo':
        return this.#maintenance.undo(await this.#die(worker))
      case 'undo_any': {
        const ended = this.#ownership.runs.filter((run) => !this.#runs.includes(run))
        const run = ended[(worker * 3 + row) % ended.length]
        return run === undefined ? undefined : this.#maintenance.undo(run)
      }
      case 'remap':
        return this.#maintenance.remap()
      case 'forget':
        return this.#maintenance.forget(((worker * 3 + row) * 101) % (this.#count * 3))
      case 'notice_deleted':
        return this.#maintenance.noticeDeleted()
      case 'unlock':
        return this.#people.unlock()
      case 'slow_table':
        return this.#people.slow()
    }
  }

  #start(worker: number): Promise<number> {
    return beginRun(this.#deps.db, {
      sources: ['worlds'],
      leaseMs: HOUR,
      scopes: { [serviceOf(worker)]: scopeOf(serviceOf(worker)) },
    })
  }

  #runOf = (worker: number) => ({
    id: this.#runs[worker] ?? 0,
    budget: new RunBudget(null, SERVICE.credits),
    service: serviceOf(worker),
  })

  async #pick(worker: number, worlds: readonly number[]): Promise<void> {
    await this.#maintenance.restoreReturned()
    const options = { limit: null, where: where(worlds) }
    const pass = createPass(this.#source)
    const run = this.#runOf(worker)
    while (pass.phase !== 'done') await pick(this.#deps, run, pass, options)
  }

  /** Picks rows that were requeued because their inputs changed, and adopts rows and lookups that dead runs left behind. */
  async #repick(worker: number): Promise<void> {
    const { signal } = new AbortController()
    const live = (await runs.listRunning(this.#deps.db)).map((one) => one.id)
    const run = this.#runOf(worker)
    await lookups.adoptLookups(this.#deps.db, { run: run.id, service: run.service }, live)
    await repick(this.#deps, run, this.#source, { includeAbandoned: true, signal })
  }

  /** A worker goes all the way with every fourth world: few sequences get so far step by step. */
  async #enrich(worker: number, part: number): Promise<void> {
    const worlds = this.#worlds.filter((world) => world % 4 === part)
    await this.#pick(worker, worlds)
    this.#calls.start(await this.#lease(worlds))
    await this.#calls.answer(worlds, 'all', foundEvent)
    await this.#writeBack()
  }

  /** Writes all answered rows, except those that users have locked. */
  async #writeBack(): Promise<void> {
    await this.#people.makeDue()
    await this.#ownership.duringWrite(this.#people.locked, async () => {
      for (let written = { rows: 1, more: true }; written.rows > 0 || written.more;)
        written = await writeBack.writeBackBatch(this.#deps, this.#source)
    })
    await this.#people.checkLeftRows()
  }

  get #worlds(): number[] {
    return Array.from({ length: this.#count }, (_, world) => world)
  }

  close(): Promise<void> {
    return this.#people.unlock()
  }

  /** The leader of each service leases lookups of its running runs. */
  async #lease(worlds: readonly number[] | null): Promise<Leased[]> {
    // Leasing takes all pending lookups, so those of other worlds are held back meanwhile.
    if (worlds !== null) {
      await this.#database.pool.query(
        `update fillrate.lookups set not_before = case when substring(key from '^w(\\d+)-')::int = any ($1::int[]) then null else timestamptz 'infinity' end
          where state = 'pending'`,
        [worlds],
      )
    }
    const leased: Leased[] = []
    for (const service of SERVICES)
      for (const { id: run } of await runs.listRunning(this.#deps.db, { service, scope: scopeOf(service) })) {
        const options = { run, service, bulk: BULK, limit: 100_000, token: randomUUID(), leaseMs: HOUR }
        const lookups = await leases.leaseLookups(this.#deps.db, options)
        const tokens = await this.#splitLease(options.token)
        for (const one of lookups)
          leased.push({ ...one, token: tokens.get(one.id) ?? options.token, service })
      }
    await this.#database.pool.query(
      `update fillrate.lookups set not_before = null where not_before is not null`,
    )
    return leased
  }

  /** A lease for each world in place of one for all: each world's expires alone. @returns the token of each lookup */
  async #splitLease(token: string): Promise<ReadonlyMap<number, string>> {
    const rows = await this.#database.query<{ token: string; ids: number[] }>(
      `with parts as (
         select gen_random_uuid() as token, array_agg(id) as ids from fillrate.lookups
          where lease_token = $1 group by substring(key from '^w(\\d+)-')
       ), moved as (
         update fillrate.lookups l set lease_token = p.token from parts p where l.id = any(p.ids)
       )
       select token, ids::int[] from parts`,
      [token],
    )
    return new Map(rows.flatMap((part) => part.ids.map((id) => [id, part.token] as const)))
  }

  /** A worker's process dies, and another starts. @returns the run of the dead one */
  async #die(worker: number): Promise<number> {
    const dead = this.#runs[worker] ?? 0
    await this.#database.pool.query(
      `update fillrate.runs set leased_until = now() - interval '1 s' where id = $1`,
      [dead],
    )
    await recover.recoverAbandoned(this.#deps, null)
    this.#runs[worker] = await this.#start(worker)
    return dead
  }

  /** Brings every row to its final state, and compares the result with the model. */
  async findViolations(): Promise<string[]> {
    const all = this.#worlds
    await this.#people.unlock()
    await this.#people.slow(false)
    this.#calls.crash(all)
    await this.#calls.resume(all)
    await this.#jobs.recordSubmissions({ type: 'unconfirmed', reason: 'connection' })
    for (let round = 0; round < 8; round++) {
      await this.#calls.expire(all)
      for (const name of ['settle', 'pass_deadlines'] as const)
        await this.#shared({ name, worker: 0, row: 0 })
      if (round === 0) for (let worker = 1; worker < WORKERS; worker++) await this.#die(worker)
      await this.#pick(0, all)
      await this.#repick(0)
      this.#calls.start(await this.#lease(null))
      await this.#calls.answer(all, 'all', foundEvent)
      await this.#shared({ name: 'write_back', worker: 0, row: 0 })
      const rows = await this.#database.query<{ open: number }>(
        `select count(*)::int as open from worlds t left join fillrate.rows r on r.key = t.id::text where r.state = 'waiting'`,
      )
      if (rows[0]?.open === 0 && round > 0) break
    }
    const { rows, lookups: found, mixed } = await readFinalState(this.#database.pool)
    const miscounted = await findMiscounted(this.#database.pool)
    await foldRowCounts(this.#database.db, 0)
    return [
      ...miscounted,
      ...(await findMiscounted(this.#database.pool)),
      ...(await findMisnamedFailures(this.#database.pool)),
      ...this.#calls.violations,
      ...this.#people.violations,
      ...this.#model.violations,
      ...this.#ownership.violations,
      ...this.#maintenance.violations,
      ...mixed.map(({ key, run, title }) => `row ${key}: run ${run} wrote ${title}, of another service`),
      ...findViolations(this.#model, rows, found),
    ]
  }
}
