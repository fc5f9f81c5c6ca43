import { setTimeout as sleep } from 'node:timers/promises'
import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { LeaderElector } from '../../../src/runs/leader.ts'
import { Breaker } from '../../../src/service/breaker.ts'
import { openDatabase } from '../../../src/store/open.ts'
import { Cable } from '../../support/cable.ts'
import { createTestDatabase } from '../../support/database.ts'

test('a lease that is lost while Postgres is away is not logged above debug, and once in all', async () => {
  const database = await createTestDatabase()
  const cable = await new Cable(database.url).plug()
  const db = openDatabase({ url: cable.through(database.url), max: 2 })
  onTestFinished(async () => {
    await db.destroy()
    await database.drop()
  })
  const lines: { readonly level: number; readonly event: string }[] = []
  const log = pino({ level: 'debug' }, { write: (line) => lines.push(JSON.parse(line) as (typeof lines)[0]) })
  const elector = new LeaderElector({
    db,
    scope: () => 'api.example.com 62af8704',
    owner: 'this process',
    log,
    reserve: 0,
    breaker: new Breaker(),
  })
  const leadership = await elector.acquire()
  await cable.pull()
  await new Promise((resolve) => leadership?.lost.addEventListener('abort', resolve))
  // The calls on the wire end later than that, and the leadership with them.
  await sleep(5_000)
  await leadership?.end()
  expect(lines.filter(({ event }) => event === 'leader_lease_lost')).toHaveLength(1)
  expect(lines.filter(({ level }) => level > 20)).toEqual([])
})
