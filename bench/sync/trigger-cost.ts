import { onServer } from '../../test/support/server.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { changeFollowing } from '../../src/pipeline/following.ts'
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
 * What the triggers cost: the same statement on two databases that differ in nothing else, in turn, so that a slow
 * moment of the machine falls on both.
 */
export async function measureTriggers(
  server: string,
  options: { readonly rows: number; readonly rounds: number; readonly indexed: boolean },
): Promise<TriggerCost[]> {
  const plain = await prepare(server, 'plain', options.indexed)
  const followed = await prepare(server, 'followed', options.indexed)
  const db = openDatabase({ url: followed, max: 1 })
  const source = await openSource(db, mapping())
  await changeFollowing(db, source, 'install')
  await db.destroy()

  const costs: TriggerCost[] = []
  for (const [statement, act] of statements(options.rows)) {
    const times: { plain: number; followed: number }[] = []
    for (let round = 0; round <= options.rounds; round++) {
      const one = { plain: await timed(plain, act), followed: await timed(followed, act) }
      // The first warms up.
      if (round > 0) times.push(one)
    }
    costs.push({
      statement,
      withoutMs: median(times.map((one) => one.plain)),
      withMs: median(times.map((one) => one.followed)),
      ratio: median(times.map((one) => one.followed / one.plain)),
    })
  }
  return costs
}

type Act = (client: Parameters<Parameters<typeof onServer>[1]>[0]) => Promise<unknown>

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
  ]
}

/** One statement, and afterwards everything as it was. */
async function timed(url: string, act: Act): Promise<number> {
  return onServer(url, async (client) => {
    await client.query('truncate fillrate.followed')
    await client.query('checkpoint')
    const began = performance.now()
    await act(client)
    const ms = performance.now() - began
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
