import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Finding } from '../../../src/cli/check/finding.ts'
import { startLoopback } from '../../support/loopback.ts'
import { openCommandLine } from './command-line.ts'

/** Three services: the sandbox, one of its own description, and one whose variables are missing. */

const LIBRARY = resolve(import.meta.dirname, '../../../src/index.ts')

const { database, sandbox, cli, here } = await openCommandLine({
  prepare: (pool) =>
    pool.query(`
    create table people (id int primary key, email text, title text, phone text, score int);
    insert into people (id, email) select n, 'p' || n || '@example.com' from generate_series(1, 20) n;
    analyze`),
})

const received: string[] = []
const finder = await startLoopback(({ method, url, headers }, response) => {
  received.push(`${method} ${url} ${headers['x-key']}`)
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ role: 'CTO', mobile: '+4712345678' }))
})
afterAll(() => finder.close())

beforeAll(async () => {
  await writeFile(
    join(cli.folder, 'finder.ts'),
    `import { defineService } from '${LIBRARY}'
     export default defineService({
       name: 'Finder',
       auth: { header: 'x-key' },
       person: { path: '/find', inputs: ['email'], record: { confidence: null } },
       fields: { person: { role: 'text', mobile: 'text', size: 'text' } },
       rate: { limit: '60 per minute' },
     })
     export const cases = [
       { name: 'found', input: { email: 'a@example.com' }, answer: { body: { role: 'CTO' } }, expect: { outcome: 'found' } },
     ]`,
  )
  await cli.configure(config)
})

const config = {
  services: {
    acme: { budget: 50 },
    finder: { adapter: './finder.ts', price: { currency: 'EUR', lookup: 0.1 } },
    third: {},
  },
  sources: {
    people: {
      kind: 'person',
      table: 'people',
      inputs: { email: 't.email' },
      services: ['acme', { name: 'finder', when: 'blank' }],
      outputs: {
        title: { acme: 'title', finder: 'role' },
        phone: { acme: 'phone', finder: 'mobile' },
        score: { finder: 'size' },
      },
    },
  },
  budget: 100,
}

/** Nothing of the only service, and nothing of `third`, which serves no source. */
const variables = (): NodeJS.ProcessEnv => ({
  FILLRATE_BASE_URL: undefined,
  FILLRATE_API_KEY: undefined,
  FILLRATE_WEBHOOK_SECRET: undefined,
  FILLRATE_ACME_BASE_URL: sandbox.url,
  FILLRATE_ACME_API_KEY: cli.environment['FILLRATE_API_KEY'],
  FILLRATE_ACME_WEBHOOK_SECRET: cli.environment['FILLRATE_WEBHOOK_SECRET'],
  FILLRATE_FINDER_BASE_URL: finder.url,
  FILLRATE_FINDER_API_KEY: 'finder-key',
})

async function check(changes: NodeJS.ProcessEnv = {}, ...words: string[]): Promise<Finding[]> {
  const { stdout } = await here(['check', '--json', ...words], { ...variables(), ...changes })
  return (JSON.parse(stdout) as { checks: Finding[] }).checks
}

describe('with several services', () => {
  test('each is checked, with its key, description and cases, and the columns that they fill', async () => {
    const checks = await check()
    const of = (service: string | undefined) =>
      checks.filter((one) => one.service === service).map(({ name, verdict }) => `${name} ${verdict}`)
    expect(of(undefined)).toEqual(['configuration ok', 'database ok', 'schema ok', 'source people ok'])
    expect(checks.find(({ name }) => name === 'configuration')?.text).toBe(
      'fillrate.config.json, 1 source, 3 services',
    )
    expect(of('acme')).toEqual(['service ok', 'key ok', 'bulk ok'])
    expect(of('finder')).toEqual(['service ok', 'key ok', 'description ok', 'bulk ok'])
    expect(checks.find(({ name }) => name === 'description')?.text).toBe('Finder')
    // It serves no source.
    expect(of('third')).toEqual([])
  })

  test('a mistake in the description of one is named with its file', async () => {
    await writeFile(
      join(cli.folder, 'broken.ts'),
      `export default { name: 'Broken', person: { path: 'find' } }`,
    )
    await cli.configure({
      ...config,
      services: { ...config.services, finder: { adapter: './broken.ts' } },
    })
    const checks = await check()
    await cli.configure(config)
    expect(checks[0]?.problems.map(({ place }) => place)).toEqual([
      expect.stringMatching(/broken\.ts: person\.path$/),
    ])
  })

  test('a problem of a table is one, whichever services serve it', async () => {
    await cli.configure({
      ...config,
      sources: { people: { ...config.sources.people, table: 'persons' } },
    })
    const checks = await check()
    await cli.configure(config)
    const found = checks.filter(({ name }) => name === 'source people')
    expect(found.map(({ service, verdict, text }) => [service, verdict, text])).toEqual([
      [undefined, 'error', '1 problem'],
    ])
  })

  test('a run names the variable that a service lacks', async () => {
    await here(['migrate'], variables())
    const { code, stderr } = await here(['run'], { ...variables(), FILLRATE_FINDER_API_KEY: undefined })
    expect(code).toBe(2)
    expect(stderr).toMatch(/FILLRATE_FINDER_API_KEY\n +found +not set/)
  })

  test('a run names the variables of the service that refuses its key', async () => {
    const { code, stderr } = await here(['run', '--route', 'sync'], {
      ...variables(),
      FILLRATE_ACME_API_KEY: 'a-wrong-key',
    })
    expect(code).toBe(2)
    expect(stderr).toContain('Check FILLRATE_ACME_API_KEY, FILLRATE_ACME_AUTH and FILLRATE_ACME_BASE_URL;')
    await database.query('truncate fillrate.rows, fillrate.lookups; delete from fillrate.services')
  })

  test('--call looks up at each that takes the input, or at one', async () => {
    received.length = 0
    const all = await check({}, '--call', 'email=ada@example.com')
    const called = all.filter(({ name }) => name === 'call').map(({ service }) => service)
    expect(called).toEqual(['acme', 'finder'])
    expect(received).toContain('POST /find finder-key')
    const one = await check({}, '--call', 'service=finder', 'email=ada@example.com')
    expect(one.filter(({ name }) => name === 'call')).toMatchObject([{ service: 'finder', text: 'found' }])
    expect(one.find(({ name }) => name === 'record')?.todo).toContain('mobile: "+4712345678"')
    const unknown = await here(['check', '--call', 'service=fnder', 'email=ada@example.com'], variables())
    expect(unknown.code).toBe(2)
    expect(unknown.stderr).toMatch(/--call service=fnder[\s\S]*acme, finder/)
  })

  test('results of another service are reported', async () => {
    await here(['migrate'], variables())
    const host = new URL(sandbox.url).host
    await database.query(`insert into fillrate.services (id, host) values (0, $1), (1, 'old.example')`, [
      host,
    ])
    const scopes = (checks: readonly Finding[]) =>
      checks.filter(({ name }) => name === 'scope').map(({ service, text }) => [service, text])
    expect(scopes(await check())).toEqual([
      ['finder', `this database holds results of old.example, and none of ${new URL(finder.url).host}`],
    ])
    // A second one at the same host: its results belong to one of them from now on.
    const shared = await check({ FILLRATE_FINDER_BASE_URL: sandbox.url })
    expect(scopes(shared)).toEqual([
      ['acme', `this database holds results of ${host}, and none of ${host}/acme`],
      ['finder', `this database holds results of ${host}, and none of ${host}/finder`],
    ])
    expect(shared.find(({ name }) => name === 'scope')?.todo).toContain(
      `set host = '${host}/acme' where host = '${host}'`,
    )
  })
})
