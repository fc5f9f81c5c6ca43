import fc from 'fast-check'
import { expect } from 'vitest'
import pino from 'pino'
import { openApp } from '../../src/app.ts'
import { parseConfig } from '../../src/config/parse.ts'
import type { Environment } from '../../src/config/environment.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'
import { environmentForServices, runRequest } from './environment.ts'
import { answerJson, type LoopbackService, startLoopback } from './loopback.ts'
import {
  COLUMNS,
  type ModelCase,
  modelCase,
  SERVICE_NAMES,
  type ServiceName,
  type WorldSettings,
} from './turn-cases.ts'
import { answerOf, toKey, TurnModel } from './turn-model.ts'

/** No call waits for it. */
const LIMIT = {
  'X-RateLimit-Limit': '1000000',
  'X-RateLimit-Remaining': '999000',
  'X-RateLimit-Reset': String(Math.ceil(Date.now() / 1000) + 86_400),
}

/** A service of any name, which answers what the model expects of it. */
async function startPlayed(seed: number): Promise<LoopbackService & { takeCalls(): string[] }> {
  let calls: string[] = []
  const asked = new Map<string, number>()
  const service = await startLoopback(({ url, body }, response) => {
    const name = url.split('/')[1] as ServiceName
    const { email, linkedin_url: profile } = JSON.parse(body) as { email?: string; linkedin_url?: string }
    const key = toKey(email ?? profile ?? '')
    const call = `${name} ${key}`
    const nth = asked.get(call) ?? 0
    asked.set(call, nth + 1)
    calls.push(call)
    const answer = answerOf(seed, name, key, nth)
    if (answer.outcome === 'found')
      answerJson(response, 200, { id: call, confidence: answer.confidence, ...answer.record }, LIMIT)
    else answerJson(response, answer.outcome === 'not_found' ? 404 : 422, { error: answer.outcome }, LIMIT)
  })
  return {
    ...service,
    takeCalls: () => {
      const taken = calls.toSorted()
      calls = []
      return taken
    },
  }
}

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

const toConfig = ({ ages, worlds }: ModelCase): object => ({
  services: Object.fromEntries(
    SERVICE_NAMES.map((name) => [
      name,
      {
        refreshAfter: `${ages[name].refresh}d`,
        retryNotFoundAfter: `${ages[name].retry}d`,
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
  const service = await startPlayed(given.seed)
  const database = await createTestDatabase()
  try {
    for (const w of given.worlds.keys())
      await database.query(
        `create table w${w} (id int primary key, email text, profile text, title text, phone text, seniority text);
         insert into w${w} (id) select generate_series(1, ${model.worlds[w]?.rows.length ?? 0})`,
      )
    const sandboxes = Object.fromEntries(
      SERVICE_NAMES.map((name) => [
        name,
        { url: `${service.url}/${name}`, keys: ['key'], webhookSecret: 'secret' },
      ]),
    )
    const environment = environmentForServices(database.url, sandboxes)
    const config = parseConfig(toConfig(given), null)
    for (const pass of given.days.keys()) {
      await passDays(database, given.days[pass] ?? 0)
      model.edit(pass)
      await writeRows(database, model)
      await run(config, environment)
      expect({ pass, calls: service.takeCalls() }).toEqual({ pass, calls: model.pass() })
      expect({ pass, rows: await readRows(database, model) }).toEqual({ pass, rows: listRows(model) })
      expect(await database.count(`fillrate.rows where state = 'waiting'`)).toBe(0)
    }
  } finally {
    await service.close()
    await database.drop()
  }
}

async function run(config: ReturnType<typeof parseConfig>, environment: Environment): Promise<void> {
  const log = pino({ level: process.env['TEST_LOG'] ?? 'silent' }, pino.destination(2))
  const app = await openApp({ config, environment, log })
  try {
    expect(await app.run(runRequest({ route: 'sync' }))).toMatchObject({
      status: 'completed',
    })
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
  fc.assert(fc.asyncProperty(modelCase(worlds), playCase), { numRuns: cases, endOnFailure: true })
