import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { hasPgBouncer, startPgBouncer, type PgBouncer } from '../../chaos/pgbouncer.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runRequest, useHarness } from '../../support/harness.ts'

// Each statement that costs more than to ask for the backend's number would be compiled here, where JIT is not off: auto_explain reports
// which were.

let bouncer: PgBouncer | null = null
let isAvailable = false
const compiled: string[] = []
let statements = 0
const { emit } = pg.Client.prototype

/** PgBouncer accepts no empty one. */
const withPassword = (url: string): URL => {
  const parsed = new URL(url)
  parsed.password ||= 'any'
  return parsed
}

const harness = useHarness({ config: crmConfig, prepare: ({ pool }) => createCrm(pool, 60) })
beforeAll(async () => {
  const { url } = harness.database
  const rows = await harness.query<{ jit: boolean; name: string }>(
    'select pg_jit_available() as jit, quote_ident(current_database()) as name',
  )
  isAvailable = rows[0]?.jit === true
  if (!isAvailable) return
  for (const setting of [
    `session_preload_libraries = 'auto_explain'`,
    'auto_explain.log_min_duration = 0',
    'auto_explain.log_level = notice',
    'jit = on',
    'jit_above_cost = 0.1',
  ])
    await harness.query(`alter database ${rows[0]?.name} set ${setting}`)
  pg.Client.prototype.emit = function report(this: pg.Client, event: string, ...args: unknown[]): boolean {
    const { message = '' } = event === 'notice' ? (args[0] as { message?: string }) : {}
    if (message.includes('Query Text:')) {
      statements++
      if (/^ *JIT:/m.test(message)) compiled.push(message.slice(0, 200))
    }
    return emit.apply(this, [event, ...args])
  } as typeof emit
  if (hasPgBouncer()) bouncer = await startPgBouncer(withPassword(url))
})
afterAll(async () => {
  pg.Client.prototype.emit = emit
  await bouncer?.stop()
})
beforeEach((context) => {
  if (!isAvailable) context.skip('the server has no JIT')
  compiled.length = 0
  statements = 0
})

test('a statement of another client is compiled', async () => {
  const client = new pg.Client({ connectionString: harness.database.url })
  await client.connect()
  await client.query('select count(*) from crm.contacts where id > 0')
  await client.end()
  expect(compiled).toHaveLength(1)
})

describe.each(['directly', 'behind PgBouncer'])('%s', (how) => {
  test('no statement of Fillrate is compiled', async (context) => {
    if (how !== 'directly' && bouncer === null) context.skip('pgbouncer is not installed')
    const url = withPassword(harness.database.url)
    if (how !== 'directly') url.port = String(bouncer?.port)
    const app = await harness.open({ environment: { databaseUrl: url.href } })
    const { run } = await app.run(runRequest())
    await app.plan(runRequest())
    await app.explain('contacts', '1')
    await app.undo({ run, dryRun: false, signal: new AbortController().signal })
    await app.close()
    expect(statements).toBeGreaterThan(50)
    expect(compiled).toEqual([])
  })
})
