import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import type { Ended } from '../../support/cli.ts'
import { openCommandLine } from './command-line.ts'
import { personSource } from '../../support/crm.ts'

const LIBRARY = resolve(import.meta.dirname, '../../../src/index.ts')

const { cli, here } = await openCommandLine({
  prepare: (pool) =>
    pool.query(`
    create table contacts (id int primary key, email text, job_title text);
    insert into contacts select n, 'p' || n || '@company.example' from generate_series(1, 60) n`),
})

/** Nothing listens at the address. */
const run = (...words: string[]): Promise<Ended> => here(words, { FILLRATE_BASE_URL: 'http://127.0.0.1:1' })

const contacts = personSource('contacts', { job_title: 'title' })
const configure = (adapter: unknown): Promise<void> =>
  cli.configure({ service: { adapter }, sources: { contacts } })

/** A description in the folder of a user. */
async function writeService(parts: string): Promise<string> {
  const file = `own-${Math.random().toString(36).slice(2)}.ts`
  const text = `import { defineService } from '${LIBRARY}'
export default defineService({ name: 'Own', ${parts} })`
  await writeFile(join(cli.folder, file), text)
  return `./${file}`
}

test.each([
  ['whose jobs are fetched', `poll: { path: '/jobs/{job_id}' }, bulk: { path: '/jobs', size: 20 }`],
  ['that answers at once', `bulk: { path: '/jobs', size: 20, results: 'answer' }`],
])('plan counts the jobs of a service %s', async (_, parts) => {
  const module = await writeService(
    `person: { path: '/people', inputs: ['email'] }, fields: { person: { title: 'text' } }, ${parts}`,
  )
  await configure(module)
  await run('migrate')
  const { calls } = JSON.parse((await run('plan', '--json')).stdout) as {
    calls: object
  }
  expect(calls).toEqual({ person: 0, company: 0, bulk: 3, total: 3 })
})

test('check says that a description has no cases, and shows no header of it', async () => {
  const module = await writeService(
    `auth: 'bearer', headers: { 'x-app-key': 'not-to-be-shown' }, person: { path: '/people' }`,
  )
  await configure(module)
  const { stdout } = await run('check')
  expect(stdout).toMatch(/! description +Own, without cases[\s\S]*testService\(service, cases\)/)
  expect(stdout).not.toContain('not-to-be-shown')
})
