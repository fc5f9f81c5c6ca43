import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { openCommandLine } from './command-line.ts'

// The description of a service is edited while its records are stored.

const LIBRARY = resolve(import.meta.dirname, '../../../src/index.ts')

const server = createServer((request, response) => {
  request.resume()
  response.end(JSON.stringify({ title: 'CEO', employer: { name: 'Engines' }, score: 90 }))
})
await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done))
afterAll(() => void server.close())

const { cli, here } = await openCommandLine({
  prepare: (pool) =>
    pool.query(`
    create table contacts (id int primary key, email text, title text, company text);
    insert into contacts (id, email) select n, 'p' || n || '@company.example' from generate_series(1, 3) n`),
})

const run = (...words: string[]) =>
  here([...words, '--config', 'own.json'], {
    FILLRATE_BASE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  })

/** Each form is another module: Node loads a module once. */
async function describe(part: string, outputs: object = { title: 'title' }): Promise<void> {
  const module = `own-${Math.random().toString(36).slice(2)}.ts`
  const text = `import { defineService } from '${LIBRARY}'
export default defineService({ name: 'Own', ${part} })`
  await writeFile(join(cli.folder, module), text)
  const source = { kind: 'person', table: 'contacts', inputs: { email: 't.email' }, outputs }
  await writeFile(
    join(cli.folder, 'own.json'),
    JSON.stringify({
      service: { adapter: `./${module}` },
      sources: { contacts: source },
      budget: 'unlimited',
    }),
  )
}

interface Checked {
  readonly name: string
  readonly verdict: string
  readonly text: string
  readonly todo: string | null
}

async function checkDescription(): Promise<Checked | undefined> {
  const { checks } = JSON.parse((await run('check', '--json')).stdout) as { checks: Checked[] }
  return checks.find(({ name }) => name === 'stored records')
}

const person = `person: { path: '/people', record: { confidence: 'score', confidenceMax: 100 } }`

test('check says how many stored records are of an earlier form, what differs, and what to do', async () => {
  await describe(`${person}, fields: { person: { title: 'text' } }`)
  expect(await checkDescription()).toBeUndefined()
  expect((await run('run')).code).toBe(0)
  expect(await checkDescription()).toBeUndefined()

  // Fields alone: the records hold them already.
  await describe(`${person}, fields: { person: { title: 'text', 'employer.name': 'text' } }`, {
    title: 'title',
    company: 'employer.name',
  })
  expect(await checkDescription()).toMatchObject({
    verdict: 'warning',
    text: expect.stringMatching(
      /^3 stored records of 127\.0\.0\.1:\d+ are of an earlier form of the description: fields\.person differs$/,
    ),
    todo: '`fillrate remap contacts` writes them again by the new one, without a call.',
  })
  // A run under the new form notes it, and the older records stay older.
  expect((await run('run')).code).toBe(0)
  expect((await checkDescription())?.text).toMatch(/^3 stored records/)
  expect((await run('remap', 'contacts')).code).toBe(0)
  expect(await checkDescription()).toBeUndefined()

  // Another reading of answers: only the service can say what it would be.
  await describe(
    `person: { path: '/people', record: { confidence: 'score', confidenceMax: 90 } }, credits: { hit: 2 },
     fields: { person: { title: 'text', 'employer.name': 'text' } }`,
  )
  const finding = await checkDescription()
  expect(finding?.text).toMatch(/person\.record.*credits|credits.*person\.record/)
  expect(finding?.todo).toContain('`fillrate remap contacts`')
  expect(finding?.todo).toContain('What they cost stays as it was counted.')
  const statement = /with old[^;]*;/.exec(finding?.todo ?? '')?.[0] ?? ''
  expect(statement).toContain('fillrate.lookups')

  // What was changed back is no change.
  await describe(`${person}, fields: { person: { title: 'text', 'employer.name': 'text' } }`)
  expect(await checkDescription()).toBeUndefined()
})
