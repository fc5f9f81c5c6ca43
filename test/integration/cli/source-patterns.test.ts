import { expect, test } from 'vitest'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { openCommandLine } from './command-line.ts'

// Sources by pattern, wherever a command takes names of sources.

const { contacts } = crmConfig.sources
const { database, here, sandbox, cli } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 12),
  config: {
    ...crmConfig,
    budget: 100,
    sources: {
      acme_de: { ...contacts, where: "t.id::text like '%1'" },
      acme_no: { ...contacts, where: "t.id::text like '%2'" },
      other: { ...contacts, where: "t.id::text like '%3'" },
    },
  },
})

const json = async (...words: string[]) => {
  const { stdout, code } = await here([...words, '--json'])
  expect(code).toBe(0)
  return JSON.parse(stdout)
}
const namesOf = (list: readonly { readonly source: string }[]): string[] => list.map(({ source }) => source)

test('plan and run take the sources that a pattern matches, each once', async () => {
  expect(namesOf((await json('plan', 'acme_*', 'acme_de')).sources)).toEqual(['acme_de', 'acme_no'])
  expect(namesOf((await json('plan', 'other', '*_no')).sources)).toEqual(['other', 'acme_no'])
  await json('run', 'acme_*', '--route', 'sync')
  const acme = ['acme_de', 'acme_no']
  expect(await database.scalar('select json_agg(distinct source) from fillrate.rows')).toEqual(acme)
  const recorded = "select parameters->'sources' from fillrate.audit_events where action = 'run'"
  expect(await database.scalar(recorded)).toEqual(acme)
})

test('pause, resume, follow, retry and failures take them too', async () => {
  expect((await json('pause', 'acme_*')).changed.toSorted()).toEqual(['acme_de', 'acme_no'])
  expect((await json('plan', 'acme_*')).paused).toEqual(['acme_de', 'acme_no'])
  expect((await json('resume', 'a*_no', 'acme_de')).changed.toSorted()).toEqual(['acme_de', 'acme_no'])
  expect(namesOf((await json('follow', 'install', 'acme_*')).sources)).toEqual(['acme_de', 'acme_no'])
  await database.pool.query("update fillrate.rows set state = 'failed', failure = 'failed', reason = 'test'")
  const failed = (await json('failures')).total
  expect(failed).toBeGreaterThan(1)
  expect((await json('failures', '--source', 'acme_*')).total).toBe(failed)
  const ofOne = (await json('failures', '--source', '*_no')).total
  expect(ofOne).toBeLessThan(failed)
  expect((await json('retry', '*_no', '--dry-run')).rows).toBe(ofOne)
})

test('a pattern that matches no source is refused, and is not all of them', async () => {
  const before = sandbox.stats().calls
  for (const words of [
    ['run', 'acne_*'],
    ['plan', 'acne_*'],
    ['retry', 'acne_*'],
    ['pause', 'acne_*'],
    ['follow', 'install', 'acne_*'],
    ['failures', '--source', 'acne_*'],
  ]) {
    const { code, stderr } = await here(words)
    expect([words, code]).toEqual([words, 2])
    expect(stderr).toContain('acne_*')
    expect(stderr).toContain('acme_de')
  }
  expect(sandbox.stats().calls).toEqual(before)
})

test('what is broken of a pattern is left out, as it is without names', async () => {
  await cli.configure({
    ...crmConfig,
    budget: 100,
    sources: { acme_de: contacts, acme_no: { ...contacts, table: 'crm.none' } },
  })
  const plan = await json('plan', 'acme_*')
  expect([namesOf(plan.sources), namesOf(plan.left_out)]).toEqual([['acme_de'], ['acme_no']])
  await json('retry', 'acme_*', '--dry-run')
  expect((await here(['retry', 'acme_no', '--dry-run'])).code).toBe(2)
})
