import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { PoolClient } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { StatusReport } from '../../../src/domain/report/status.ts'
import { scheduleName } from '../../../src/config/cron.ts'
import { type CrashableServer, startCrashableServer } from '../../chaos/crashable-server.ts'
import { missNights } from '../../support/day.ts'
import { CONCURRENCY, expectCondition, type Fault, nightly, OnCall } from '../../support/on-call.ts'
import { watchProcess } from '../../support/operator-view.ts'
import { onServer } from '../../support/server.ts'

// What Postgres, a source, the schedule and live sync can do wrong beside two services, begun and ended for real. At the end
// the money is what the services have counted.

const canMount = process.getuid?.() === 0 && spawnSync('mount', ['--version']).status === 0

let server: CrashableServer
let disk: string
let hour: OnCall
/** Holds a lock. */
let locker: PoolClient

beforeAll(async () => {
  server = await startCrashableServer()
  disk = mkdtempSync(join(tmpdir(), 'fillrate-disk-'))
  hour = await OnCall.open(await createDatabase())
})
afterAll(async () => {
  await hour.close()
  await server.stop()
  if (canMount) execFileSync('umount', [disk])
  rmSync(disk, { recursive: true })
  console.log(hour.formatTimes())
})

/** A database whose files are in a file system of their own, if that can be mounted. @returns its URL */
async function createDatabase(): Promise<string> {
  await onServer(server.url, async (client) => {
    if (canMount) {
      const { rows } = await client.query<{ data_directory: string }>('show data_directory')
      const { uid } = statSync(rows[0]?.data_directory ?? '')
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=64m,uid=${uid},mode=700`, 'tmpfs', disk])
      await client.query(`create tablespace small location '${disk}'`)
    }
    await client.query(`create database night ${canMount ? 'tablespace small' : ''}`)
  })
  const url = new URL(server.url)
  url.pathname = '/night'
  return url.href
}

const setReadOnly = (value: 'on' | 'off'): Promise<void> =>
  onServer(server.url, async (client) => {
    await client.query(`alter system set default_transaction_read_only = ${value}`)
    await client.query('select pg_reload_conf()')
  })

const ofDatabase = { kind: 'database_away', service: null, source: null } as const
const ofContacts = { service: null, source: 'contacts' } as const

/** In this order: what Postgres or a source delays is not late for a while. */
const FAULTS: readonly Fault[] = [
  {
    name: 'schedule missed',
    kind: 'late',
    service: null,
    source: scheduleName(nightly),
    title: /The schedule .* is late/,
    // No daemon runs when it is due.
    begin: async (it) => {
      await it.stop()
      await missNights({ database: it }, nightly)
      await it.start('serve')
    },
    end: async (it) => {
      await it.stop()
      const startedAt = Date.now()
      await it.start()
      return startedAt
    },
  },
  {
    ...ofContacts,
    name: 'live sync behind',
    kind: 'late',
    title: /Live sync of contacts is (?:.* )?behind/,
    // A migration holds the table, and a row waits that a user has changed before.
    begin: async (it) => {
      locker = await it.pool.connect()
      await locker.query(
        'begin; set local lock_timeout = 0; lock table crm.contacts in access exclusive mode',
      )
      await it.query(
        `insert into fillrate.changed_rows (changed_at, source, keys, is_import)
         values (now() - interval '10 minutes', 'contacts', '{1}', false)`,
      )
    },
    end: async () => {
      await locker.query('rollback')
      locker.release()
    },
  },
  {
    ...ofDatabase,
    name: 'disk full',
    title: /Postgres takes no writes: its disk is full/,
    begin: async (it) => {
      // Otherwise a scheduled run that has not ended picks these rows.
      await it.endNights()
      await it.addLeads(600)
      const manual = watchProcess(it.cli.start('run', 'leads', '--route', 'sync', '--json'))
      it.view.processes.push(manual)
      await expect.poll(manual.text).toContain('"run_started"')
      spawnSync('dd', ['if=/dev/zero', `of=${join(disk, 'filler')}`, 'bs=4k'], { stdio: 'ignore' })
    },
    end: async (it) => {
      // The progress of the run says it, and blames no one else.
      const manual = it.view.processes.at(-1)
      await expect.poll(() => manual?.text()).toMatch(/"event":"progress".*its disk is full/)
      expect(manual?.text()).not.toContain('another process calls the service')
      rmSync(join(disk, 'filler'))
      return Date.now()
    },
  },
  {
    ...ofContacts,
    name: 'column renamed',
    kind: 'source_broken',
    title: /contacts is left out/,
    begin: async (it) => {
      await it.query('alter table crm.contacts rename column seniority to seniority_level')
      await it.startNightly(40)
    },
    end: async (it) => {
      await it.query('alter table crm.contacts rename column seniority_level to seniority')
    },
  },
  {
    ...ofDatabase,
    name: 'read-only',
    title: /Postgres takes no writes: it is read-only/,
    begin: async (it) => {
      await it.startNightly(100)
      await setReadOnly('on')
    },
    end: () => setReadOnly('off'),
  },
  {
    ...ofContacts,
    name: 'rejecting trigger',
    kind: 'writes_rejected',
    title: /The database rejects (?:[\d,]+ )?rows of contacts/,
    begin: async (it) => {
      await it.query(`
        create function crm.guard() returns trigger language plpgsql as $$
        begin raise exception 'contact % may not be changed', new.email; end $$;
        create trigger guard before update on crm.contacts for each row execute function crm.guard()`)
      for (let n = 1; n <= 12; n++)
        await it.query('insert into crm.contacts (email) values ($1)', [`guarded${n}@example.com`])
      await it.startNightly(40)
    },
    end: async (it) => {
      const rejected = await it.query(
        `select key from fillrate.rows where source = 'contacts' and state = 'write_rejected'`,
      )
      await it.query('drop trigger guard on crm.contacts')
      await it.run('retry', 'contacts')
      // Whichever process sees the end logs it.
      const retried = watchProcess(it.cli.startWith({ LOG_LEVEL: 'info' }, 'run', 'contacts', '--json'))
      it.view.processes.push(retried)
      expect((await retried.ended).code).toBe(0)
      // Until they are written, rows are rejected.
      const [last] = await it.query(
        `select (extract(epoch from max(written_at)) * 1000)::float8 as ms from fillrate.changes
          where source = 'contacts' and key = any ($1)`,
        [rejected.map(({ key }) => key)],
      )
      return Number(last?.['ms'])
    },
  },
  {
    ...ofDatabase,
    name: 'Postgres away',
    title: /Postgres is away/,
    begin: async (it) => {
      await it.startNightly(200)
      await server.halt()
    },
    end: async () => {
      await server.start()
      return Date.now()
    },
  },
]

test.each(FAULTS.filter(({ name }) => canMount || name !== 'disk full'))(
  '$name: one condition of no service, with one end on every channel',
  (fault) => expectCondition(hour, fault),
)

test('each kind of warning or error is logged once a minute at most', () => {
  expect(hour.listRepeatedLines()).toEqual([])
})

test('the money is what the services have counted, and each row has its record', async () => {
  hour.endTraffic()
  const blank = `select (select count(*) from crm.leads where title is null)
    + (select count(*) from crm.contacts c
        where title is null and not exists (
                select from fillrate.rows r
                 where r.source = 'contacts' and r.key = c.id::text and r.state <> 'waiting'))
    as rows`
  await hour.endNights()
  // What the nights have left, the next one looks up.
  await hour.startNightly(0)
  await hour.endNights()
  await expect.poll(() => hour.query(blank)).toEqual([{ rows: '0' }])
  const countBilled = (): number =>
    [hour.acme, hour.beta]
      .map((sandbox) => sandbox.stats().inputs)
      .reduce((sum, inputs) => sum + inputs.requested_singly + inputs.requested_in_bulk, 0)
  // What live sync has just called is stored in a moment.
  const recorded = `select count(*)::int as lookups from fillrate.lookups where state in ('found', 'not_found')`
  await expect
    .poll(async () => (await hour.query<{ lookups: number }>(recorded))[0]?.lookups === countBilled())
    .toBe(true)
  for (const sandbox of [hour.acme, hour.beta])
    expect(sandbox.stats().inputs).toMatchObject({ unanswered: 0, paid_more_than_once: 0 })
  const { spend } = JSON.parse(await hour.run('status', '--json')) as StatusReport
  const { lookups, in_doubt: inDoubt } = spend.today
  // An answer that could not be stored before its lease expired is in doubt. As after a crash, at most three a slot, each time that
  // leases expire: on a full disk, read-only and without Postgres.
  expect(lookups).toBeLessThanOrEqual(countBilled())
  // Open: a few were neither counted nor in doubt, 3 of 1,483 once.
  expect(lookups + inDoubt).toBeGreaterThanOrEqual(countBilled() - 4 * CONCURRENCY)
  expect(inDoubt).toBeLessThanOrEqual(3 * 3 * 2 * CONCURRENCY)
  // A run of one service beside a run of both.
  expect(await hour.query(`select reason from fillrate.runs where reason like '%another service%'`)).toEqual(
    [],
  )
  await hour.stop()
})
