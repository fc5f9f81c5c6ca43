import { describe, expect, test } from 'vitest'
import { renderError, type ErrorViewOptions } from '../../../src/cli/cli.ts'
import { explainDatabaseError } from '../../../src/cli/views/database-error.ts'
import { createPaint } from '../../../src/cli/terminal.ts'
import { UsageError } from '../../../src/cli/command.ts'
import { runCommand } from '../../../src/cli/commands/run.ts'
import { ConfigProblems } from '../../../src/config/problems.ts'
import { LeaseLostError } from '../../../src/domain/run.ts'
import { SourceProblems } from '../../../src/sources/problems.ts'

const env = {
  DATABASE_URL: 'postgres://crm:s%40cret99@db.example:5433/crm',
  FILLRATE_API_KEY: 'key-number-one, key-number-two',
  FILLRATE_WEBHOOK_SECRET: 'webhook-secret',
}
const secrets = ['s%40cret99', 's@cret99', 'key-number-one', 'key-number-two', 'webhook-secret']
const view: ErrorViewOptions = { env, paint: createPaint(false), stack: false, interrupted: false }

const withCode = (code: string, message = 'what the driver said', more: object = {}): Error =>
  Object.assign(new Error(message), { code, ...more })

describe('an error that the user can fix names the place and the fix', () => {
  const problem = {
    place: 'sources.contacts.table',
    found: "'crm.contact'",
    expected: 'a table',
    todo: 'Correct it.',
  }

  test('wrong usage', () => {
    const error = new UsageError(runCommand, 'there is no option --limt', "Did you mean '--limit'?")
    const shown = renderError(error, view)
    expect(shown.exit).toBe(2)
    expect(shown.text).toMatch(/^fillrate: there is no option --limt\. Did you mean '--limit'\?\n/)
    expect(shown.text).toContain('fillrate run [options] [SOURCE...]')
    expect(shown.text).toContain('fillrate run --help')
    const problem = {
      place: 'the command line',
      found: 'there is no option --limt',
      expected: 'fillrate run [options] [SOURCE...]',
      todo: "Did you mean '--limit'?",
    }
    expect(shown.json.error).toEqual({
      kind: 'usage',
      message: expect.stringContaining('--limt') as string,
      problems: [problem],
    })
  })

  test('the configuration', () => {
    const shown = renderError(new ConfigProblems('fillrate.config.ts', [problem]), view)
    expect(shown.exit).toBe(2)
    expect(shown.text).toMatch(
      /^fillrate: 1 problem in fillrate\.config\.ts:\n\n {2}sources\.contacts\.table\n/,
    )
    expect(shown.text).toMatch(/to do +Correct it\./)
    expect(shown.json.error).toMatchObject({ kind: 'configuration', problems: [problem] })
  })

  test('the sources', () => {
    const one = {
      source: 'contacts',
      place: 'outputs.titel',
      found: 'no such column',
      expected: 'a column',
      todo: 'Correct it.',
    }
    const shown = renderError(new SourceProblems([one, { ...one, place: 'table' }]), view)
    expect(shown.exit).toBe(2)
    expect(shown.text).toMatch(/2 problems/)
    expect(shown.text).toContain('sources.contacts.outputs.titel')
    expect(shown.json.error.problems?.map((problem) => problem.place)).toEqual([
      'sources.contacts.outputs.titel',
      'sources.contacts.table',
    ])
  })

  test.each([
    ['ECONNREFUSED', /connection refused/],
    ['ENOTFOUND', /host not found/],
    ['ETIMEDOUT', /timed out/],
    ['28P01', /what the driver said \(28P01\)[\s\S]*psql "\$DATABASE_URL"/],
    ['3D000', /what the driver said \(3D000\)/],
    ['57P03', /what the driver said \(57P03\)/],
  ])('the database: %s', (code, message) => {
    const shown = renderError(withCode(code), view)
    expect(shown.exit).toBe(2)
    expect(shown.text).toMatch(message)
    expect(shown.text).toContain('DATABASE_URL')
    expect(shown.text).toContain('crm@db.example:5433/crm')
  })

  test('the database, without a password or with wrong TLS settings', () => {
    const sasl = new Error('SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string')
    expect(renderError(sasl, view).text).toMatch(/client password must be a\s+string[^]*psql/)
    for (const code of [
      'SELF_SIGNED_CERT_IN_CHAIN',
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'ERR_TLS_CERT_ALTNAME_INVALID',
    ]) {
      const tls = explainDatabaseError(Object.assign(new Error('of TLS'), { code }), env.DATABASE_URL)
      expect(tls?.todo).toContain('sslrootcert=/path/ca.pem')
      expect(tls?.todo).not.toContain('disable')
    }
    const ssl = renderError(new Error('The server does not support SSL connections'), view)
    expect(ssl.text).toMatch(/does not support SSL connections[^]*psql/)
    expect([renderError(sasl, view).exit, ssl.exit]).toEqual([2, 2])
  })

  test('the database, which closed the connection in the middle of a statement', () => {
    // As pg throws it, without a code.
    const problem = explainDatabaseError(new Error('Connection terminated unexpectedly'), env.DATABASE_URL)
    expect(problem).toMatchObject({
      place: 'DATABASE_URL',
      found: 'crm@db.example:5433/crm: Connection terminated unexpectedly',
      expected: 'a reachable Postgres database',
      todo: expect.stringContaining('psql') as string,
    })
    const other = new Error('Connection of the service terminated')
    expect(explainDatabaseError(other, env.DATABASE_URL)).toBeNull()
  })

  test('a missing schema suggests migrate', () => {
    const missing = withCode('42P01', 'relation "fillrate.rows" does not exist', { severity: 'ERROR' })
    const shown = renderError(missing, view)
    expect(shown.exit).toBe(2)
    expect(shown.text).toContain('fillrate migrate')
    const ours = Object.assign(new Error('the schema is missing. Run `fillrate migrate` first'), {
      name: 'SchemaMissingError',
    })
    expect(renderError(ours, view)).toMatchObject({
      exit: 2,
      text: expect.stringContaining('fillrate migrate'),
    })
  })

  test('a missing privilege leads to the statements that grant it', () => {
    const denied = withCode('42501', 'permission denied for table crm.people', { severity: 'ERROR' })
    expect(renderError(denied, view).text).toContain('`fillrate check` lists the statements')
  })

  test('a run that lost its lease is not an unexpected error', () => {
    const shown = renderError(new LeaseLostError(7, 15_000), view)
    expect(shown).toMatchObject({ exit: 1, json: { error: { kind: 'lease_lost' } } })
    expect(shown.text).toMatch(/run 7 lost its lease: .* Run again to finish\./s)
    expect(shown.text).not.toMatch(/unexpected/)
  })

  test('a missing table of the user is not a missing schema', () => {
    const missing = withCode('42P01', 'relation "crm.contact" does not exist', { severity: 'ERROR' })
    expect(renderError(missing, view)).toMatchObject({
      exit: 1,
      text: expect.not.stringContaining('migrate'),
    })
  })
})

describe('an unexpected error', () => {
  test('shows its message, and its stack only at log level debug', () => {
    const error = new TypeError('x is not a function', { cause: new Error('the cause of it') })
    const brief = renderError(error, view)
    expect(brief.exit).toBe(1)
    expect(brief.text).toMatch(/TypeError: x is not a function/)
    expect(brief.text).not.toMatch(/^\s+at /m)
    expect(brief.text).toContain('LOG_LEVEL=debug')
    const whole = renderError(error, { ...view, stack: true })
    expect(whole.text).toMatch(/^\s+at /m)
    expect(whole.text).toContain('the cause of it')
  })

  test('shows none of its properties: those of a database error can contain values of a row', () => {
    const error = withCode('23505', 'duplicate key value', {
      severity: 'ERROR',
      detail: 'Key (email)=(ada@example.com)',
    })
    expect(renderError(error, { ...view, stack: true }).text).not.toContain('ada@example.com')
  })
})

test('an abort counts as an interrupt only if the command was interrupted', () => {
  const abort = new DOMException('This operation was aborted', 'AbortError')
  expect(renderError(abort, { ...view, interrupted: true }).exit).toBe(130)
  expect(renderError(abort, view).exit).toBe(1)
})

describe('no secret is ever shown', () => {
  const texts = secrets.map((secret) => `of ${secret}!`)
  const all = texts.join(' ')
  const errors: [string, Error][] = [
    ['an unforeseen error', new Error(all)],
    ['its cause', new Error('outer', { cause: new Error(all) })],
    [
      'a configuration',
      new ConfigProblems('the environment', [{ place: 'X', found: all, expected: all, todo: all }]),
    ],
    ['a source', new SourceProblems([{ source: 'a', place: 'x', found: all, expected: all, todo: all }])],
    ['usage', new UsageError(null, all)],
    ['the database', withCode('42501', all)],
    ['the URL itself', new Error(`cannot connect to ${env.DATABASE_URL}`)],
  ]
  test.each(errors)('%s', (_, error) => {
    const shown = renderError(error, { ...view, stack: true })
    const output = shown.text + JSON.stringify(shown.json)
    for (const secret of secrets) expect(output).not.toContain(secret)
  })
})
