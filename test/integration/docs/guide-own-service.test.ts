import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { codeBlocks, fromSources } from '../../support/code-blocks.ts'
import { writeGuideConfig } from '../../support/guide.ts'
import { answerJson, startLoopback } from '../../support/loopback.ts'
import { type ServiceCase, testService } from '../../../src/actions/service-cases.ts'
import { openCommandLine } from '../cli/command-line.ts'

// docs/guides/own-service.md, without the service: its description, its cases and its configuration, in the order of the page.

const { database, cli, here } = await openCommandLine({
  prepare: (pool) =>
    pool.query(`
      create schema crm;
      create table crm.contacts (id int primary key, email text, title text, phone text);
      insert into crm.contacts values (1, 'ada@example.com', null, null), (2, 'bob@example.com', null, null),
                                      (3, 'no address', null, null)`),
})
const blocks = codeBlocks().filter(({ file }) => file === 'docs/guides/own-service.md')
const codeOf = (start: string): string => blocks.find(({ code }) => code.startsWith(start))?.code ?? ''
await writeFile(join(cli.folder, 'finder.ts'), fromSources(codeOf('// finder.ts')))

test('the cases come out as they say, and the service that answers so fills rows', async () => {
  const { default: definition, cases } = (await import(join(cli.folder, 'finder.ts'))) as {
    default: Parameters<typeof testService>[0]
    cases: readonly ServiceCase[]
  }
  await testService(definition, cases)

  await writeGuideConfig(cli.folder, codeOf('// fillrate.config.ts'))
  const [match, miss] = cases.map(({ answer }) => answer.body)
  const finder = await startLoopback(({ url }, response) =>
    answerJson(response, 200, url === '/v1/find?email=ada%40example.com' ? match : miss),
  )
  const service = { FILLRATE_BASE_URL: finder.url, FILLRATE_API_KEY: 'any' }
  try {
    const called = await here(['check', '--call', 'email=ada@example.com'], service)
    expect([called.code, called.stdout]).toEqual([0, expect.stringContaining('found')])

    const dry = await here(['run', '--dry-run', '--budget', '20', '--json'], service)
    expect(JSON.parse(dry.stdout)).toMatchObject({
      rows: { enriched: 1, not_found: 1 },
      // A hit costs a credit, a miss nothing.
      spend: { lookups: 2, credits: 1, cost: { amount: 0.05, currency: 'EUR' } },
    })
    expect(await database.count('crm.contacts where title is not null')).toBe(0)
    await here(['run', '--limit', '100', '--budget', '100'], service)
    expect(await database.query('select title, phone from crm.contacts order by id')).toEqual([
      { title: 'Analyst', phone: '+4712345678' },
      { title: null, phone: null },
      { title: null, phone: null },
    ])
  } finally {
    await finder.close()
  }
})
