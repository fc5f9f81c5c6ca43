import fc from 'fast-check'
import pino from 'pino'
import { expect } from 'vitest'
import { openApp } from '../../src/app.ts'
import { parseConfig } from '../../src/config/load.ts'
import type { Environment } from '../../src/config/environment.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'
import { environmentForServices, runRequest } from './environment.ts'
import { expireDeadlines, expireLeases, PRELOADED } from '../chaos/fixture.ts'
import { createCommandLine } from './cli.ts'
import { freePort } from './free-port.ts'
import { PLAYED_SECRET, startPlayedServices } from './played-service.ts'
import { COLUMNS, modelCase, SERVICE_NAMES, type ModelCase, type WorldSettings } from './turn-cases.ts'
import { toKey, TurnModel } from './turn-model.ts'

const toOutputs = ({ outputs, turns }: WorldSettings) =>
  Object.fromEntries(
    COLUMNS.flatMap((column) => {
      const own = turns.flatMap(({ name }) => {
        const one = outputs[column][name]
        return one === null ? [] : [[name, one] as const]
      })
      return own.length === 0 ? [] : [[column, Object.fromEntries(own)] as const]
    }),
  )

const toConfig = ({ ages, isBulk, worlds }: ModelCase): object => ({
  services: Object.fromEntries(
    SERVICE_NAMES.map((name) => [
      name,
      {
        refreshAfter: `${ages[name].refresh}d`,
        retryNotFoundAfter: `${ages[name].retry}d`,
        ...(name !== 'b' && { bulk: { minimum: isBulk ? 2 : 1_000, grace: '0s' } }),
        ...(name === 'b' && {
          adapter: {
            name: 'B',
            person: {
              method: 'POST',
              path: '/v1/person',
              inputs: ['email'],
              record: { confidence: 'confidence' },
            },
          },
        }),
      },
    ]),
  ),
  sources: Object.fromEntries(
    worlds.map((world, w) => [
      `w${w}`,
      {
        kind: 'person',
        table: `w${w}`,
        inputs: { email: 't.email', linkedin_url: 't.profile' },
        cascade: world.cascade,
        services: world.turns.map(({ name, when, minConfidence }, turn) => ({
          name,
          minConfidence,
          ...(turn > 0 && { when }),
        })),
        outputs: toOutputs(world),
      },
    ]),
  ),
  budget: 'unlimited',
})

/** Days pass: everything that is stored was done that much earlier. */
const passDays = ({ query }: TestDatabase, days: number): Promise<unknown> =>
  query(`do $$ declare c record; begin
    for c in select table_name, string_agg(format('%I = %I - interval ''${days} days''', column_name, column_name), ', ') as sets
               from information_schema.columns
              where table_schema = 'fillrate' and table_name in ('rows', 'lookups') and data_type like 'timestamp%' group by table_name loop
      execute format('update fillrate.%I set %s', c.table_name, c.sets);
    end loop; end $$`)

async function playCase(given: ModelCase): Promise<void> {
  const model = new TurnModel(given)
  const services = await startPlayedServices(given.seed)
  const database = await createTestDatabase()
  const sandboxes = Object.fromEntries(
    SERVICE_NAMES.map((name) => [
      name,
      { url: `${services.url}/${name}`, keys: ['key'], webhookSecret: PLAYED_SECRET },
    ]),
  )
  const port = await freePort()
  const environment = { ...environmentForServices(database.url, sandboxes), port }
  const config = parseConfig(toConfig(given), null)
  const cli = await createCommandLine(database.url, sandboxes, toConfig(given))
  const start = (point: number) =>
    cli.startWith(
      { FILLRATE_PORT: String(port), ...PRELOADED, CHAOS_KILL_AFTER: String(point) },
      'run',
      '--exit-zero-on',
      '3',
    ).ended
  try {
    for (const w of given.worlds.keys())
      await database.query(
        `create table w${w} (id int primary key, email text, profile text, title text, phone text, seniority text);
         insert into w${w} (id) select generate_series(1, ${model.worlds[w]?.rows.length ?? 0})`,
      )
    for (const [pass, days] of given.days.entries()) {
      await passDays(database, days)
      model.edit(pass)
      await writeRows(database, model)
      const point = given.kills[pass] ?? null
      if (point !== null) {
        const { code, stderr } = await start(point)
        expect(code === null || code === 0 ? '' : stderr).toBe('')
        await expireLeases(database)
        await run(config, environment, 1_000)
        await expireDeadlines(database)
      }
      expect(await run(config, environment)).toBe('completed')
      await expectCalls(pass, database, model, await services.takePass())
      expect({ pass, rows: await readRows(database, model) }).toEqual({ pass, rows: listRows(model) })
      expect(await database.count(`fillrate.rows where state = 'waiting'`)).toBe(0)
    }
  } finally {
    await cli.remove()
    await services.close()
    await database.drop()
  }
}

/** Each call that the model expects and no other, and none twice but those that are counted as in doubt. */
async function expectCalls(
  pass: number,
  { query }: TestDatabase,
  model: TurnModel,
  calls: ReadonlyMap<string, number>,
): Promise<void> {
  expect({ pass, calls: [...calls.keys()].toSorted() }).toEqual({ pass, calls: model.pass() })
  const inDoubt = await query<{ name: string; key: string; calls: number }>(
    `select s.name, key, unconfirmed_calls as calls from fillrate.lookups l join fillrate.services s on s.id = l.service_id`,
  )
  const allowed = new Map(inDoubt.map((one) => [`${one.name} ${toKey(one.key)}`, 1 + one.calls]))
  const twice = [...calls].filter(([call, times]) => times > (allowed.get(call) ?? 0))
  expect({ pass, twice }).toEqual({ pass, twice: [] })
}

async function run(
  config: ReturnType<typeof parseConfig>,
  environment: Environment,
  waitMs?: number,
): Promise<string> {
  const log = pino({ level: process.env['TEST_LOG'] ?? 'silent' }, pino.destination(2))
  const app = await openApp({ config, environment, log })
  try {
    return (await app.run(runRequest(waitMs === undefined ? {} : { waitMs }))).status
  } finally {
    await app.close()
  }
}

const listRows = (model: TurnModel): unknown[] =>
  model.worlds.flatMap(({ rows }, w) =>
    rows.map(({ email, profile, cells }, r) => ({ world: w, id: r + 1, email, profile, ...cells })),
  )

/** What users have made of the rows, where that is not in them yet. */
async function writeRows({ query }: TestDatabase, model: TurnModel): Promise<void> {
  for (const [w, { rows }] of model.worlds.entries())
    await query(
      `update w${w} t set email = v.email, profile = v.profile, title = v.title, phone = v.phone, seniority = v.seniority
         from jsonb_populate_recordset(null::w${w}, $1) v
        where v.id = t.id and v is distinct from t`,
      [JSON.stringify(rows.map(({ email, profile, cells }, r) => ({ id: r + 1, email, profile, ...cells })))],
    )
}

const readRows = async ({ query }: TestDatabase, model: TurnModel): Promise<unknown[]> =>
  (
    await Promise.all(
      [...model.worlds.keys()].map((w) =>
        query(`select ${w} as world, id, email, profile, title, phone, seniority from w${w} order by id`),
      ),
    )
  ).flat()

/** Tries configurations of several services against the model. @throws with the seed of the case that fails */
export const checkTurns = (cases: number, worlds: number): Promise<void> =>
  fc.assert(fc.asyncProperty(modelCase(worlds), playCase), { numRuns: cases, endOnFailure: true, ...SEED })

/** As a failure prints it: `SEVERAL_SEED=1163533912 SEVERAL_PATH=2`. */
const SEED =
  process.env['SEVERAL_SEED'] === undefined
    ? {}
    : { seed: Number(process.env['SEVERAL_SEED']), path: process.env['SEVERAL_PATH'] ?? '' }
