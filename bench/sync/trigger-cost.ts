import { onServer } from '../../test/support/server.ts'
import { parseConfig } from '../../src/config/load.ts'
import { setTriggers } from '../../src/actions/triggers.ts'
import { openSource } from '../../src/sources/source.ts'
import { migrate } from '../../src/store/migrate.ts'
import { openDatabase } from '../../src/store/open.ts'
import { median } from '../throughput/table.ts'
import { createCrm, crmConfig, insertRows } from './table.ts'

export interface TriggerCost {
  readonly statement: string
  /** Medians over the rounds, in milliseconds. */
  readonly withoutMs: number
  readonly withMs: number
  /** The median of the ratios within each round. */
  readonly ratio: number
}

/**
 * Measures the cost of the triggers: the same statement in turn on two databases that differ in nothing else, so that a
 * slow moment of the machine affects both.
 */
export async function measureTriggers(
  server: string,
  options: { readonly rows: number; readonly rounds: number; readonly indexed: boolean },
): Promise<TriggerCost[]> {
  const plain = await prepare(server, 'plain', options.indexed)
  const followed = await prepare(server, 'followed', options.indexed)
  const db = openDatabase({ url: followed, max: 1 })
  const source = await openSource(db, mapping())
  await setTriggers(db, source, 'install')
  await db.destroy()

  const urls = { plain, followed }
  const costs: TriggerCost[] = []
  for (const [statement, act] of statements(options.rows)) {
    const times: Times[] = []
    for (let round = 0; round <= options.rounds; round++) {
      const one = { plain: await timed(plain, act), followed: await timed(followed, act) }
      // The first round warms up.
      if (round > 0) times.push(one)
    }
    costs.push(cost(statement, times))
  }
  costs.push(await underOldSnapshot(urls, options.rounds))
  return costs
}

interface Times {
  readonly plain: number
  readonly followed: number
}

type Urls = Readonly<Record<'plain' | 'followed', string>>

const cost = (statement: string, times: readonly Times[]): TriggerCost => ({
  statement,
  withoutMs: median(times.map((one) => one.plain)),
  withMs: median(times.map((one) => one.followed)),
  ratio: median(times.map((one) => one.followed / one.plain)),
})

type Client = Parameters<Parameters<typeof onServer>[1]>[0]
type Act = (client: Client) => Promise<unknown>

function statements(rows: number): [string, Act][] {
  const count = rows.toLocaleString('en')
  return [
    [`insert of ${count} rows`, (client) => insertRows(client, rows, 'new')],
    [
      `update of ${count} rows, inputs unchanged`,
      (client) => client.query(`update crm.contacts set title = 'x' where id <= $1`, [rows]),
    ],
    [
      `update of ${count} rows, inputs changed`,
      (client) => client.query(`update crm.contacts set email = 'x' || email where id <= $1`, [rows]),
    ],
    [
      '1,000 inserts of one row, each a transaction',
      async (client) => {
        for (let n = 0; n < 1_000; n++)
          await client.query('insert into crm.contacts (email, first_name) values ($1, $2)', [
            `one${n}@example.com`,
            'Ada',
          ])
      },
    ],
    ['100 updates of one row in one transaction, inputs changed', (client) => updates(client, 100)],
    ['1,000 updates of one row in one transaction, inputs changed', (client) => updates(client, 1_000)],
  ]
}

async function updates(client: Client, count: number): Promise<void> {
  await client.query('begin')
  for (let id = 1; id <= count; id++)
    await client.query(`update crm.contacts set email = 'x' || email where id = $1`, [id])
  await client.query('commit')
}

/**
 * The same updates while another session holds a snapshot, as `pg_dump` does, under which 200,000 changes were recorded
 * and deleted: no dead row can be removed.
 */
async function underOldSnapshot(urls: Urls, rounds: number): Promise<TriggerCost> {
  const times: Times[] = []
  await onServer(urls.followed, (holder) =>
    onServer(urls.followed, async (followed) => {
      await holder.query('begin isolation level repeatable read; select count(*) from fillrate.changed_rows')
      await followed.query(
        `do $$ begin for n in 1..200000 loop update crm.contacts set email = 'y' || n where id = 50001 + n % 40000;
           if n % 1000 = 0 then delete from fillrate.changed_rows; end if; end loop; end $$`,
      )
      await onServer(urls.plain, async (plain) => {
        for (let round = 0; round <= rounds; round++) {
          const one = { plain: await timeUpdates(plain, 500), followed: await timeUpdates(followed, 500) }
          if (round > 0) times.push(one)
        }
      })
      await holder.query('commit')
    }),
  )
  return cost(
    '500 updates of one row, each a transaction, after 200,000 changes under an old snapshot',
    times,
  )
}

async function timeUpdates(client: Client, count: number): Promise<number> {
  const startedAt = performance.now()
  for (let id = 1; id <= count; id++)
    await client.query(`update crm.contacts set email = 'x' || email where id = $1`, [id])
  return performance.now() - startedAt
}

/** Times one statement and restores the table afterwards. */
async function timed(url: string, act: Act): Promise<number> {
  return onServer(url, async (client) => {
    await client.query('truncate fillrate.changed_rows')
    await client.query('checkpoint')
    const startedAt = performance.now()
    await act(client)
    const ms = performance.now() - startedAt
    await client.query(`delete from crm.contacts where email not like '%before%'`)
    await client.query('vacuum crm.contacts')
    return ms
  })
}

async function prepare(server: string, name: string, indexed: boolean): Promise<string> {
  const suffixed = `triggers_${name}_${indexed ? 'indexed' : 'bare'}`
  const url = Object.assign(new URL(server), { pathname: `/${suffixed}` }).href
  await onServer(server, (client) => client.query(`create database ${suffixed}`))
  const db = openDatabase({ url, max: 1 })
  await migrate(db)
  await db.destroy()
  await onServer(url, (client) => createCrm(client, 100_000, indexed))
  return url
}

function mapping() {
  const { contacts } = parseConfig(crmConfig, null).sources
  if (!contacts) throw new Error('the configuration has no source contacts')
  return contacts
}
