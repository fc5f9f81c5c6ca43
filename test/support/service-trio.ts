import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { SandboxOptions } from '../../src/sandbox/options.ts'
import { findPerson } from '../../src/sandbox/people.ts'
import type { Sandbox } from '../../src/sandbox/server.ts'
import type { TestDatabase } from './clone.ts'

/** Three services in order, cheap and well informed first: they know 60, 55 and 45% of the people, many of them the same. */
export const TRIO = {
  acme: { seed: 1, notFoundShare: 0.4, price: 0.1 },
  beta: { seed: 2, notFoundShare: 0.45, price: 0.25 },
  gamma: { seed: 3, notFoundShare: 0.55, price: 0.6 },
} as const
export type TrioName = keyof typeof TRIO
export const TRIO_NAMES = Object.keys(TRIO) as TrioName[]

/** What each service plays: its knowledge, and a number of calls in a window that is its own. */
export const trioSandboxes = (
  limits: Readonly<Record<TrioName, number>>,
  windowMs: number,
  rest: Partial<SandboxOptions> = {},
): Readonly<Record<TrioName, Partial<SandboxOptions>>> => {
  const play = (name: TrioName): Partial<SandboxOptions> => {
    const { seed, notFoundShare } = TRIO[name]
    return { seed, notFoundShare, limit: limits[name], windowMs, ...rest }
  }
  return { acme: play('acme'), beta: play('beta'), gamma: play('gamma') }
}

const MIN_CONFIDENCE = 0.3

export const trioConfig = {
  services: Object.fromEntries(
    TRIO_NAMES.map((name) => [name, { price: { currency: 'EUR', lookup: TRIO[name].price } }]),
  ),
  sources: {
    people: {
      kind: 'person',
      table: 'people',
      inputs: { email: 't.email' },
      outputs: { title: 'title', phone: 'phone' },
      minConfidence: MIN_CONFIDENCE,
    },
  },
  budget: 'unlimited',
} as const

/** Every tenth person shares the address of the one before, and every seventh has a title that was typed. */
export async function createPeople(pool: pg.Pool, count: number): Promise<void> {
  await pool.query(`
    create table people (id int primary key, email text, title text, phone text);
    insert into people
    select n, case when n % 10 = 0 then 'P' || (n - 1) || '@Example.com' else 'p' || n || '@example.com' end,
           case when n % 7 = 0 then 'typed by hand' end
      from generate_series(1, ${count}) n;
    create schema oracle;
    create table oracle.people as select *, lower(email) as key from people;
    create table oracle.known (turn int, key text, confidence float8, title text, phone text, primary key (turn, key));
    create view oracle.settled as
      select distinct on (key) * from oracle.known where confidence >= ${MIN_CONFIDENCE} order by key, turn`)
  const { rows } = await pool.query<{ key: string }>('select distinct key from oracle.people')
  for (const [turn, name] of TRIO_NAMES.entries()) {
    const settings = { ...TRIO[name], missingShare: 0.15 }
    const known = rows.flatMap(({ key }) => {
      const record = findPerson({ kind: 'email', key }, settings)
      if (record === undefined) return []
      const { confidence, title = null, phone = null } = record
      return { turn, key, confidence, title, phone }
    })
    await pool.query(
      'insert into oracle.known select * from jsonb_populate_recordset(null::oracle.known, $1)',
      [JSON.stringify(known)],
    )
  }
}

/** The rows that do not hold what they did before, with what the first service that knows their person adds. */
export const WRONG_ROWS = `
  people p join oracle.people o using (id) left join oracle.settled s using (key)
   where (p.email, p.title, p.phone)
         is distinct from (o.email, coalesce(o.title, s.title), coalesce(o.phone, s.phone))`

/** Whom a service is to be requested with: those that none before it knows. */
export const listExpected = async ({ query }: Pick<TestDatabase, 'query'>, turn: number): Promise<string[]> =>
  (
    await query<{ key: string }>(
      `select distinct key from oracle.people
        where not exists (select from oracle.settled s where s.key = people.key and s.turn < $1)`,
      [turn],
    )
  )
    .map(({ key }) => key)
    .sort()

/** What a sandbox has served: how often each person was paid for, and whom. */
export function readBill(sandbox: Pick<Sandbox, 'stats'>): {
  readonly people: readonly string[]
  readonly paid: number
} {
  const { inputs } = sandbox.stats({ inputs: true })
  const people = Object.entries(inputs.all ?? {})
  return {
    people: people.map(([key]) => key).sort(),
    paid: inputs.requested_singly + inputs.requested_in_bulk + inputs.unanswered,
  }
}

/**
 * The share of its limit that a sandbox has answered, in whole windows of steady work: without its first ones and its last, and without
 * those in which nothing waited for it at some time. NaN: there is no such window.
 */
export function utilisationOfSandbox(
  { stats }: Pick<Sandbox, 'stats'>,
  idleAt: readonly number[],
): {
  readonly used: number
  /** The calls of each window, and after how many milliseconds the next one began. */
  readonly windows: readonly string[]
} {
  let accepted = 0
  let possible = 0
  const windows = stats().windows.map((one, n, { length, [n + 1]: next }) => {
    const untilNext = (next?.starts_at ?? one.ends_at) - one.starts_at
    const wasIdle = idleAt.some((at) => at >= one.starts_at && at <= one.starts_at + untilNext)
    if (n >= 3 && n < length - 1 && !wasIdle) {
      accepted += one.accepted
      possible += (untilNext / (one.ends_at - one.starts_at)) * one.limit
    }
    return `${one.accepted} in ${Math.round(untilNext)} ms${wasIdle ? ', idle' : ''}`
  })
  return { used: accepted / possible, windows }
}

/** Looks until it is stopped which running services nothing waits for. @returns a function that stops it, with the times by service */
export function watchIdle({ query }: Pick<TestDatabase, 'query'>): () => Promise<Map<string, number[]>> {
  const idleAt = new Map<string, number[]>()
  const stop = new AbortController()
  const watch = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      const idle = await query<{ name: string }>(`
        select s.name from fillrate.runs r join fillrate.services s on s.id = r.service_id
         where r.state = 'running' and not exists (select from fillrate.pending_lookups p where p.run_id = r.id)`)
      for (const { name } of idle) idleAt.set(name, [...(idleAt.get(name) ?? []), Date.now()])
      await sleep(200)
    }
  }
  const watched = watch()
  return async () => {
    stop.abort()
    await watched
    return idleAt
  }
}
