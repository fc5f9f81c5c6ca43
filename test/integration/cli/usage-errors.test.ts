import { describe, expect, test } from 'vitest'
import type { Ended } from '../../support/cli.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { openCommandLine } from './command-line.ts'

const { database, sandbox, cli, here } = await openCommandLine({ prepare: (pool) => createCrm(pool, 20) })

const { contacts } = crmConfig.sources
const withSource = (changes: object): object => ({
  ...crmConfig,
  sources: { contacts: { ...contacts, ...changes } },
})

const WRITTEN = 'select count(*)::int from crm.contacts where phone is not null'

/** Expects one message that names the place, exit code 2, no stack, no writes and no calls. */
async function expectRefused(ended: Ended, ...named: (string | RegExp)[]): Promise<void> {
  expect(ended.stderr).not.toMatch(/^\s+at /m)
  for (const name of named) expect(ended.stderr).toMatch(name)
  expect(ended.code).toBe(2)
  expect(sandbox.stats().calls).toEqual({ accepted: 0, refused: 0 })
  expect(await database.count('fillrate.rows')).toBe(0)
  expect(await database.scalar(WRITTEN)).toBe(0)
}

describe('a mistake gives one message with its place, exit code 2, and writes nothing', () => {
  test.each([
    ['a table that is not there', { table: 'crm.contact' }, [/contacts/, /crm\.contact\b/]],
    ['a column that is not there', { outputs: { titel: 'title' } }, [/titel/, /title/]],
    ['an input expression with a missing column', { inputs: { email: 't.e_mail' } }, [/e_mail/]],
  ])('%s', async (_, changes, named) => {
    await cli.configure(withSource(changes))
    await expectRefused(await here(['run']), ...named)
  })

  test.each([
    ['an unreachable database', 'postgres://crm:s3cret@127.0.0.1:1/crm', /DATABASE_URL|127\.0\.0\.1:1/],
    ['an invalid database URL', 'mysql://crm:s3cret@127.0.0.1/crm', /DATABASE_URL/],
  ])('%s, without its password', async (_, url, named) => {
    await cli.configure(crmConfig)
    const ended = await here(['run'], { DATABASE_URL: url })
    await expectRefused(ended, named)
    expect(ended.stderr + ended.stdout).not.toContain('s3cret')
  })

  test('a missing key', async () => {
    await cli.configure(crmConfig)
    await expectRefused(await here(['run'], { FILLRATE_API_KEY: undefined }), /FILLRATE_API_KEY/)
  })

  test('an unknown source, option and command', async () => {
    await cli.configure(crmConfig)
    await expectRefused(await here(['run', 'contact']), /contact/, /contacts/)
    await expectRefused(await here(['run', '--bugdet', '5']), /--bugdet/, /--budget/)
    await expectRefused(await here(['rnu']), /rnu/, /\brun\b/)
  })
})

test('a key that the service rejects stops the run with a message, and nothing is written', async () => {
  await cli.configure(crmConfig)
  const ended = await here(['run'], { FILLRATE_API_KEY: 'not-the-key-of-anybody' })
  expect(ended.stderr).toMatch(/FILLRATE_API_KEY/)
  expect(ended.stderr + ended.stdout).not.toContain('not-the-key-of-anybody')
  expect(ended.code).toBe(2)
  expect(await database.scalar(WRITTEN)).toBe(0)
})
