import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { openCommandLine } from '../cli/command-line.ts'

const LIBRARY = resolve(import.meta.dirname, '../../../src/index.ts')

const { cli, here, sandbox } = await openCommandLine({
  prepare: (pool) =>
    pool.query(`
    create table contacts (id int primary key, email text, linkedin_url text, title text, mobile_phone text);
    create table accounts (id int primary key, website text, industry text);
    insert into contacts select n, 'p' || n || '@company.example', 'https://www.linkedin.com/in/p' || n
      from generate_series(1, 60) n;
    insert into accounts select n, 'https://company' || n || '.example' from generate_series(1, 60) n`),
})

const NO_NAME = {
  FILLRATE_BASE_URL: undefined,
  FILLRATE_API_KEY: undefined,
  FILLRATE_WEBHOOK_SECRET: undefined,
}
const KEYS = {
  ...NO_NAME,
  FILLRATE_PEOPLE_DATA_API_KEY: 'key-1',
  FILLRATE_ACME_API_KEY: 'key-2',
}

/** A description of the user's own, in the folder of services. */
async function describePeopleData(): Promise<void> {
  await mkdir(join(cli.folder, 'services'), { recursive: true })
  await writeFile(
    join(cli.folder, 'services/people-data.ts'),
    `import { defineService } from '${LIBRARY}'
     export default defineService({
       name: 'People Data',
       person: { path: '/person', inputs: ['linkedin_url'] },
       fields: { person: { job_title: 'text', mobile_phone: 'text' } },
     })`,
  )
}
afterEach(() => rm(join(cli.folder, 'services'), { recursive: true, force: true }))

test('init proposes the services whose keys are in the environment, with the fields of each', async () => {
  await describePeopleData()
  const ended = await here(['init', '--yes', '--out', 'keyed.config.ts'], KEYS)
  expect(ended).toMatchObject({ code: 0, stderr: '' })
  const text = await readFile(join(cli.folder, 'keyed.config.ts'), 'utf8')
  expect(text).toContain(`  services: { 'people-data': './services/people-data.ts', acme: {} },`)
  expect(text.replaceAll(/\s+\/\/ /g, ' ')).toContain('has descriptions to copy into services/.')
  expect(text).toContain('Of 60 sampled rows: 60 by email.')
  expect(text).toContain("title: { 'people-data': 'job_title', acme: 'title' }")

  const json = await here(['init', '--yes', '--out', 'keyed.json'], KEYS)
  expect(json.code).toBe(0)
  expect(JSON.parse(await readFile(join(cli.folder, 'keyed.json'), 'utf8'))).toMatchObject({
    services: { 'people-data': './services/people-data.ts', acme: {} },
    sources: {
      contacts: {
        inputs: { email: 't.email', linkedin_url: 't.linkedin_url' },
        outputs: {
          title: { 'people-data': 'job_title', acme: 'title' },
          mobile_phone: { 'people-data': 'mobile_phone', acme: 'phone' },
        },
      },
      // The description has no companies, and one way to fill a column is enough.
      accounts: { outputs: { industry: 'industry' } },
    },
  })
  // It is a configuration that check accepts, but for what is not in the environment yet.
  const { stdout } = await here(['check', '--json', '--config', 'keyed.json'], {
    ...KEYS,
    FILLRATE_ACME_BASE_URL: sandbox.url,
    FILLRATE_PEOPLE_DATA_BASE_URL: sandbox.url,
  })
  const { checks } = JSON.parse(stdout) as {
    checks: { name: string; service?: string; verdict: string; problems: object[] }[]
  }
  expect(checks.filter(({ verdict }) => verdict === 'error')).toEqual([])
  expect(
    checks.flatMap(({ name, service }) => (name.startsWith('source') ? [`${service} ${name}`] : [])),
  ).toEqual(['people-data source contacts', 'acme source contacts', 'acme source accounts'])
})

test('a description with mistakes is reported, and a key without a name means one service', async () => {
  await describePeopleData()
  await writeFile(join(cli.folder, 'services/acme.ts'), `export default { name: 'Acme' }`)
  const wrong = await here(['init', '--yes', '--out', 'wrong.config.ts'], KEYS)
  expect(wrong.code).toBe(2)
  expect(wrong.stderr).toMatch(/services\/acme\.ts[\s\S]*an endpoint for a person, a company, or both/)
  const one = await here(['init', '--yes', '--out', 'one.config.ts'], { ...KEYS, FILLRATE_API_KEY: 'key' })
  expect(one.code).toBe(0)
  expect(await readFile(join(cli.folder, 'one.config.ts'), 'utf8')).not.toContain('services')
})
