import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type DatabaseConnection,
} from 'kysely'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import type { CallDeps } from '../../../src/pipeline/deps.ts'
import { Workers } from '../../../src/runs/workers.ts'
import type { RateStatus } from '../../../src/domain/rate-status.ts'
import type { Schema } from '../../../src/store/open.ts'
import { FIXED_WINDOW_STATUS } from '../../support/rate-status.ts'

/** Of a database in which no condition holds: no delivery arrived meanwhile. */
class IdleDriver extends DummyDriver {
  override acquireConnection(): Promise<DatabaseConnection> {
    return Promise.resolve({
      executeQuery: <Row>() => Promise.resolve({ rows: [{ isTrue: false } as Row] }),
      streamQuery: () => {
        throw new Error('not used')
      },
    })
  }
}

test('a follower reports the rate status of the leader', async () => {
  const ending = new AbortController()
  onTestFinished(() => ending.abort())
  const reports: (RateStatus | null)[] = [null, { ...FIXED_WINDOW_STATUS, isRemote: true }]
  const db = new Kysely<Schema>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new IdleDriver(),
      createIntrospector: (one) => new PostgresIntrospector(one),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  })
  const client = { resetKeys: () => {} }
  const deps = { db, client, log: pino({ level: 'silent' }) } as unknown as Omit<CallDeps, 'limiter'>
  const workers = new Workers(deps, {
    sources: [],
    calls: {
      ...deps,
      elector: {
        scope: 'service key',
        acquire: async () => null,
        readStatus: async () => reports.shift() ?? null,
      },
      onUnauthorized: () => {},
    },
    signal: ending.signal,
  })
  const calls = workers
    .tasks()
    .find(({ name }) => name === 'call')
    ?.start()
  expect(workers.rate()).toBe(null)
  await expect.poll(() => workers.rate()?.utilisation).toBe(0.95)
  // There is no leader any more: the last report stands.
  await expect.poll(() => reports.length).toBe(0)
  expect(workers.rate()).toMatchObject({ limit: 100, used: 950 })
  ending.abort()
  await calls
})
