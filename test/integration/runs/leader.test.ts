import pino from 'pino'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { readConditions } from '../../../src/store/conditions.ts'
import type { RateStatus } from '../../../src/domain/rate-status.ts'
import { LeaderElector, type Leadership } from '../../../src/runs/leadership.ts'
import { Breaker } from '../../../src/service/breaker.ts'
import { saveRateStatus } from '../../../src/store/rate-limits.ts'
import { openDatabase } from '../../../src/store/open.ts'
import { requestTry } from '../../../src/store/services.ts'
import { Cable } from '../../support/cable.ts'
import { useTestDatabase } from '../../support/database.ts'

// What one leader has proven is not over because another one leads, and an outage is one line of its log.

const SCOPE = 'api.example.com 62af8704'
const database = useTestDatabase()
beforeEach(() =>
  database.query(`truncate fillrate.rate_limits, fillrate.leases, fillrate.conditions;
    insert into fillrate.services (id, host) values (0, 'api.example.com') on conflict do nothing`),
)

async function lead(
  owner: string,
  { db = database.db, log = pino({ level: 'silent' }), breaker = new Breaker() } = {},
): Promise<Leadership> {
  const elector = new LeaderElector({
    db,
    scope: SCOPE,
    service: 0,
    owner,
    log,
    reserve: 0,
    breaker,
  })
  const leadership = await elector.acquire()
  if (leadership === null) throw new Error('another process is the leader')
  return leadership
}

/** A leader that was killed: it has reported, and its lease has expired. */
async function killLeader(status: Partial<RateStatus>): Promise<void> {
  const before = await lead('before')
  const [lease] = await database.query<{ token: string }>('select lease_token as token from fillrate.leases')
  const reported = { ...before.limiter.state(), limit: 60, windowMs: 10_000, ...status }
  await saveRateStatus(database.db, { scope: SCOPE, service: 0, token: lease?.token ?? '' }, reported)
  // Its own statements find no lease of theirs.
  await database.query(
    `update fillrate.leases set leased_until = now() - interval '1 s', lease_token = gen_random_uuid()`,
  )
  await before.end()
}

const listCauses = async () =>
  (await readConditions(database.db, { schedules: null })).map(({ details: { cause } }) => cause)

test.each([
  ['shared_key', { sharedKey: true }],
  ['banned', { state: 'banned' }],
] as const)('%s goes on while the leader changes, and with the next one', async (cause, status) => {
  await killLeader(status)
  expect(await listCauses()).toEqual([cause])
  const next = await lead('next')
  // Before its first report.
  expect(await listCauses()).toEqual([cause])
  expect(next.limiter.state()).toMatchObject(status)
  await next.end()
})

test('another client that was seen an hour ago is not there because it was', async () => {
  await killLeader({ sharedKey: true })
  await database.query(`update fillrate.rate_limits set reported_at = now() - interval '1 hour'`)
  const next = await lead('next')
  expect(next.limiter.state().sharedKey).toBe(false)
  expect(await listCauses()).toEqual([])
  await next.end()
})

test('a circuit is probed at once where somebody wants to, by its leader and by the next one', async () => {
  const breaker = new Breaker()
  const leader = await lead('leader', { breaker })
  breaker.restore({ probeInMs: 3_600_000, backoffMs: 60_000, reason: 'HTTP 503', cause: 'failing' })
  const stored = () => database.query('select probe_at > now() as later from fillrate.circuit_breakers')
  await expect.poll(stored, { timeout: 5_000 }).toEqual([{ later: true }])
  await requestTry(database.db, 0)
  await expect.poll(() => (breaker.nextProbeAt ?? Infinity) <= Date.now(), { timeout: 5_000 }).toBe(true)
  await leader.end()
  // Without a leader, what is stored says so to the next one.
  await database.query(`update fillrate.circuit_breakers set probe_at = now() + interval '1 hour'`)
  await requestTry(database.db, 0)
  expect(await stored()).toEqual([{ later: false }])
  await database.query('delete from fillrate.circuit_breakers')
})

test('a lease that is lost while Postgres is away is not logged above debug, and once in all', async () => {
  const cable = await new Cable(database.url).plug()
  const db = openDatabase({ url: cable.through(database.url), max: 2 })
  onTestFinished(() => db.destroy())
  const lines: { readonly level: number; readonly event: string }[] = []
  const log = pino({ level: 'debug' }, { write: (line) => lines.push(JSON.parse(line) as (typeof lines)[0]) })
  const leadership = await lead('this process', { db, log })
  await cable.pull()
  await new Promise((resolve) => leadership.lost.addEventListener('abort', resolve))
  // The calls on the wire end later than that, and the leadership with them.
  await sleep(5_000)
  await leadership.end()
  expect(lines.filter(({ event }) => event === 'leader_lease_lost')).toHaveLength(1)
  expect(lines.filter(({ level }) => level > 20)).toEqual([])
})
