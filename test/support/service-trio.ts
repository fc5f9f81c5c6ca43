import type pg from 'pg'
import type { SandboxOptions } from '../../src/sandbox/options.ts'
import { findPerson } from '../../src/sandbox/people.ts'
import type { Sandbox } from '../../src/sandbox/server.ts'
import type { TestDatabase } from './clone.ts'
import { personSource } from './crm.ts'

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
    people: personSource('people', { title: 'title', phone: 'phone' }, { minConfidence: MIN_CONFIDENCE }),
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
