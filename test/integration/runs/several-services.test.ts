import { afterEach, describe, expect, it } from 'vitest'
import { type Sandbox, startSandbox } from '../../../src/sandbox/server.ts'
import type { SandboxOptions } from '../../../src/sandbox/options.ts'
import { environmentFor } from '../../support/environment.ts'
import { type Harness, runRequest, startHarness, stateSum } from '../../support/harness.ts'

const ROWS = 120

/** The first service knows six in ten people, and the second others. */
const FIRST: Partial<SandboxOptions> = { notFoundShare: 0.4, missingShare: 0.3, seed: 1 }
const SECOND: Partial<SandboxOptions> = { notFoundShare: 0.5, missingShare: 0.3, seed: 2 }

const opened: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close()
})

interface Two extends Harness {
  readonly second: Sandbox
}

async function startTwo(source: object, rest: object = {}): Promise<Two> {
  const second = await startSandbox({ jobDelayMs: [10, 100], ...SECOND })
  opened.push(second)
  const config = {
    services: { acme: {}, beta: {} },
    sources: {
      people: {
        kind: 'person',
        table: 'people',
        inputs: { email: 't.email' },
        outputs: { title: 'title', phone: 'phone' },
        ...source,
      },
    },
    budget: 'unlimited',
    ...rest,
  }
  const harness = await startHarness({
    config,
    sandbox: FIRST,
    prepare: async ({ pool }) => {
      await pool.query(`
        create table people (id int primary key, email text, title text, phone text);
        insert into people select n, 'p' || n || '@example.com' from generate_series(1, ${ROWS}) n;`)
    },
  })
  opened.push(harness)
  const of = (sandbox: Sandbox) => {
    const { baseUrl, apiKeys, auth, clientCertificate, webhookSecrets } = environmentFor(
      harness.database.url,
      sandbox,
    )
    return { baseUrl, apiKeys, auth, clientCertificate, webhookSecrets }
  }
  const services = { FILLRATE_ACME_: of(harness.sandbox), FILLRATE_BETA_: of(second) }
  const open: Harness['open'] = (changes = {}) =>
    harness.open({ ...changes, environment: { ...changes.environment, services } })
  const run: Harness['run'] = async (request) => {
    const app = await open()
    try {
      return await app.run(runRequest({ route: 'sync', ...request }))
    } finally {
      await app.close()
    }
  }
  return { ...harness, open, run, second }
}

/** What each service has stored: how many people it was requested with, and knows. */
const LOOKUPS = `
  select s.name, count(*)::int as requested, count(*) filter (where l.state = 'found')::int as found
    from fillrate.lookups l join fillrate.services s on s.id = l.service_id group by s.name order by s.name`

describe('several services in order', () => {
  it('requests the second service with what the first has not found, in one run', async () => {
    const two = await startTwo({})
    const report = await two.run()
    const [acme, beta] = (await two.query(LOOKUPS)) as { requested: number; found: number }[]
    expect(report.status).toBe('completed')
    expect(acme?.requested).toBe(ROWS)
    expect(beta?.requested).toBe(ROWS - (acme?.found ?? 0))
    expect(report.rows.enriched + report.rows.unchanged).toBe((acme?.found ?? 0) + (beta?.found ?? 0))
    expect(stateSum(report)).toBe(ROWS)
    expect(report.services?.map(({ service, lookups }) => [service, lookups.requested])).toEqual([
      ['acme', acme?.requested],
      ['beta', beta?.requested],
    ])
    // Nobody is requested again, and each is billed what it was requested with.
    expect(two.sandbox.stats().inputs.distinct).toBe(acme?.requested)
    expect(two.second.stats().inputs.distinct).toBe(beta?.requested)
    const again = await two.run()
    expect(again.lookups.requested).toBe(0)
  })

  it('fills with the second service only what the first left blank, where that is wanted', async () => {
    const two = await startTwo({
      services: ['acme', { name: 'beta', when: 'blank' }],
      outputs: { title: { acme: 'title', beta: { field: 'title', policy: 'always' } }, phone: 'phone' },
    })
    const report = await two.run()
    expect(report.status).toBe('completed')
    // A cell that acme has filled is acme's.
    const overwritten = await two.count(`fillrate.changes c join fillrate.changes e using (source, key)
       where c.id > e.id and exists (select from jsonb_object_keys(c.after) k where e.after ? k)`)
    expect(overwritten).toBe(0)
    // Whoever lacks a cell was requested from both.
    const lacking = await two.count(`people where title is null or phone is null`)
    const both = await two.count(`people p where (title is null or phone is null)
         and (select count(*) from fillrate.lookups l where l.key = p.email) = 2`)
    expect(both).toBe(lacking)
    const full =
      await two.count(`fillrate.lookups b join fillrate.services s on s.id = b.service_id and s.name = 'beta'
        join fillrate.lookups a on a.key = b.key and a.service_id <> b.service_id
       where a.record ->> 'title' is not null and a.record ->> 'phone' is not null`)
    expect(full).toBe(0)
    expect(stateSum(report)).toBe(ROWS)
    expect((await two.run()).lookups.requested).toBe(0)
  })
})
