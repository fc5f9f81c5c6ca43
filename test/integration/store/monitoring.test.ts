import pino from 'pino'
import { expect, test } from 'vitest'
import { parseConfig } from '../../../src/config/load.ts'
import { startProcessReports } from '../../../src/runs/process-reports.ts'
import { listProcesses } from '../../../src/store/processes.ts'
import { acquireLease } from '../../../src/store/rate-limits.ts'
import { useTestDatabase } from '../../support/database.ts'
import { personSource } from '../../support/crm.ts'

const log = pino({ level: 'silent' })
const database = useTestDatabase()

test('of several services the settings of each are shown, and no secret', async () => {
  const { db } = database
  const people = personSource('people', { title: 'title' })
  const config = parseConfig(
    {
      services: {
        acme: {},
        other: {
          adapter: { name: 'Other', headers: { 'x-app': 'secret-app' }, person: { path: '/find' } },
          concurrency: 3,
        },
      },
      sources: { people },
      notify: [{ url: 'https://hooks.slack.com/services/T0/B0/secret', form: 'slack' }],
    },
    null,
  )
  const reports = await startProcessReports({ db, log, owner: 'host:2:cd' }, { role: 'start', config })
  const [self, ...others] = await listProcesses(db)
  expect(others).toEqual([])
  await reports.stop()
  expect(self?.config).toMatchObject({
    sources: { people: { step: { services: ['acme', 'other'] } } },
    services: [
      { name: 'acme', concurrency: 32 },
      { name: 'other', adapter: 'Other', concurrency: 3 },
    ],
  })
  expect(JSON.stringify(self?.config)).not.toContain('secret')
})

test('a process is listed with its leases and configuration until it ends, and no secret is stored', async () => {
  const { db } = database
  const config = parseConfig(
    {
      sources: { people: personSource('crm.people', { title: 'title' }) },
      notify: [{ url: 'https://hooks.slack.com/services/T0/B0/secret', form: 'slack' }],
    },
    '/etc/fillrate.config.json',
  )
  const owner = 'host:1:ab'
  await acquireLease(db, 'api.example 1a2b', crypto.randomUUID(), owner, 60_000)
  const reports = await startProcessReports({ db, log, owner }, { role: 'start', config })
  const [self, ...others] = await listProcesses(db)
  expect(others).toEqual([])
  expect(self).toMatchObject({
    owner,
    role: 'start',
    isAlive: true,
    leases: ['api.example 1a2b'],
    configPath: '/etc/fillrate.config.json',
  })
  expect(JSON.stringify(self?.config)).toContain('hooks.slack.com')
  expect(JSON.stringify(self?.config)).not.toContain('secret')
  await database.query(`update fillrate.processes set seen_at = now() - interval '31 seconds'`)
  expect(await listProcesses(db)).toMatchObject([{ isAlive: false }])
  await reports.stop()
  expect(await listProcesses(db)).toEqual([])
})
