import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Ended } from '../../support/cli.ts'
import { openCommandLine } from './command-line.ts'

const EXAMPLES = resolve(import.meta.dirname, '../../../examples/services')
const LIBRARY = resolve(import.meta.dirname, '../../../src/index.ts')

const { cli, here } = await openCommandLine({
  prepare: (pool) =>
    pool.query(`
    create table contacts (
      id int primary key, email text, linkedin_url text, first_name text, last_name text, company_name text,
      job_title text, seniority text, mobile_phone text, shoe_size int);
    create table accounts (
      id int primary key, website text, industry text, number_of_employees int, city text, country text);
    insert into contacts (id, email, linkedin_url, first_name, last_name, company_name)
    select n, 'p' || n || '@company.example', 'https://www.linkedin.com/in/p' || n, 'Ada', 'L' || n, 'Company ' || n
      from generate_series(1, 60) n;
    insert into accounts (id, website) select n, 'https://company' || n || '.example' from generate_series(1, 60) n`),
})

/** An example in the folder of a user, with changes. */
async function copyExample(
  name: string,
  ...changes: (readonly [from: string, to: string])[]
): Promise<string> {
  let text = (await readFile(join(EXAMPLES, `${name}.ts`), 'utf8')).replace(
    "from 'fillrate'",
    `from '${LIBRARY}'`,
  )
  for (const [from, to] of changes) {
    expect(text).toContain(from)
    text = text.replace(from, to)
  }
  const file = `${name}-${Math.random().toString(36).slice(2)}.ts`
  await writeFile(join(cli.folder, file), text)
  return `./${file}`
}

/** Nothing listens at the address. */
const run = (...words: string[]): Promise<Ended> => here(words, { FILLRATE_BASE_URL: 'http://127.0.0.1:1' })

interface Checked {
  readonly checks: {
    readonly name: string
    readonly verdict: string
    readonly place?: string
    readonly found?: string
  }[]
}

async function check(config: string): Promise<Checked['checks']> {
  const { stdout } = await run('check', '--json', '--config', config)
  return (JSON.parse(stdout) as Checked).checks
}

describe.each(['people-data-labs', 'fullenrich', 'apollo', 'leadiq'] as const)('%s', (name) => {
  test('check names the place of a mistake: a path, a field, an encoding', async () => {
    const paths = {
      'people-data-labs': '/v5/person/enrich',
      fullenrich: '/api/v2/contact',
      apollo: '/api/v1/people/match',
      leadiq: '/graphql',
    }
    const module = await copyExample(name, [`path: '${paths[name]}`, `path: '${paths[name].slice(1)}`])
    const outputs = { job_title: 'jobtitel' }
    const source = { kind: 'person', table: 'contacts', inputs: { email: 't.email' }, outputs }
    await writeFile(
      join(cli.folder, 'wrong.json'),
      JSON.stringify({ service: module, sources: { contacts: source } }),
    )
    const [path] = await check('wrong.json')
    expect(path).toMatchObject({ name: 'configuration', verdict: 'error' })
    expect(JSON.stringify(path)).toMatch(new RegExp(`${module.slice(2)}: person\\.path`))

    const right = await copyExample(name)
    await writeFile(
      join(cli.folder, 'wrong.json'),
      JSON.stringify({ service: right, sources: { contacts: source } }),
    )
    const [field] = await check('wrong.json')
    expect(JSON.stringify(field)).toContain('sources.contacts.outputs.job_title')
    expect(JSON.stringify(field)).toContain("'jobtitel'")
  })
})

/** A description in the folder of a user. */
async function writeService(parts: string): Promise<string> {
  const file = `own-${Math.random().toString(36).slice(2)}.ts`
  const text = `import { defineService } from '${LIBRARY}'
export default defineService({ name: 'Own', ${parts} })`
  await writeFile(join(cli.folder, file), text)
  return `./${file}`
}

test.each([
  ['whose jobs are fetched', `poll: { path: '/jobs/{job_id}' }, bulk: { path: '/jobs', size: 20 }`, true],
  ['that answers at once', `bulk: { path: '/jobs', size: 20, results: 'answer' }`, false],
])('plan counts the polls of a service %s', async (_, parts, isFetched) => {
  const module = await writeService(
    `person: { path: '/people', inputs: ['email'] }, fields: { person: { title: 'text' } }, ${parts}`,
  )
  const outputs = { job_title: 'title' }
  const source = { kind: 'person', table: 'contacts', inputs: { email: 't.email' }, outputs }
  await writeFile(
    join(cli.folder, 'polled.json'),
    JSON.stringify({ service: { adapter: module }, sources: { contacts: source } }),
  )
  await run('migrate')
  const { calls } = JSON.parse((await run('plan', '--json', '--config', 'polled.json')).stdout) as {
    calls: object
  }
  const polls = isFetched ? 3 : 0
  expect(calls).toEqual({ person: 0, company: 0, bulk: 3, polls, total: 3 + polls })
})

test('check names a key in the description, and a case that comes out differently', async () => {
  const module = await writeService(
    `auth: 'bearer', headers: { 'x-app-key': 'not-to-be-shown' },
     person: { path: '/people', body: ({ email }) => ({ mail: email.toLowerCase() }) } })
export const cases = [{ name: 'a match', input: { linkedinUrl: 'https://x.example/in/ada' },
  answer: { body: { title: 'CEO' } }, expect: { outcome: 'found' } }]
Object({`,
  )
  const source = {
    kind: 'person',
    table: 'contacts',
    inputs: { email: 't.email' },
    outputs: { job_title: 'title' },
  }
  await writeFile(
    join(cli.folder, 'throws.json'),
    JSON.stringify({ service: { adapter: module }, sources: { contacts: source } }),
  )
  const ended = await run('check', '--json', '--config', 'throws.json')
  expect(ended.code).toBe(2)
  const { checks } = JSON.parse(ended.stdout) as {
    checks: { name: string; verdict: string; problems: { place: string; found: string }[] }[]
  }
  const found = checks.find(({ name }) => name === 'description')
  expect(found?.problems.map(({ place }) => place)).toEqual(['service.headers.x-app-key', 'cases: a match'])
  expect(found?.problems[1]?.found).toContain('TypeError')
  expect(ended.stdout).not.toContain('not-to-be-shown')
})

test('check names a signature in another encoding, with the nearest one', async () => {
  const module = await copyExample('fullenrich', ["encoding: 'hex'", "encoding: 'hexx'"])
  await writeFile(join(cli.folder, 'signature.json'), JSON.stringify({ service: module, sources: {} }))
  const [finding, ...others] = await check('signature.json')
  // Nothing is said about a service that is not known.
  expect(others.filter(({ name }) => ['service', 'key', 'bulk'].includes(name))).toEqual([])
  expect(JSON.stringify(finding)).toMatch(/webhook\.signature\.encoding.*hexx.*Did you mean 'hex'/)
})

test('a run of a service without a bulk call does not advise to enable bulk', async () => {
  const person = { method: 'POST', path: '/v1/person', inputs: ['email'] }
  const contacts = {
    kind: 'person',
    table: 'contacts',
    inputs: { email: 't.email' },
    outputs: { job_title: 'title' },
  }
  const config = { service: { adapter: { name: 'B', person } }, sources: { contacts } }
  await writeFile(join(cli.folder, 'no-bulk.json'), JSON.stringify(config))
  const { code, stderr } = await run('run', '--budget', '0', '--config', 'no-bulk.json')
  expect(code).toBe(4)
  expect(stderr).not.toContain('bulk_off')
})
