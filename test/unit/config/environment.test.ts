import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { environmentOf, readEnvironment } from '../../../src/config/environment.ts'
import { configuredAddress } from '../../../src/pipeline/deps.ts'
import { createSecretMask } from '../../../src/cli/secret-mask.ts'
import { ConfigProblems } from '../../../src/config/problems.ts'
import { testEnvironment } from '../../support/environment.ts'

const variables = [
  'DATABASE_URL',
  'FILLRATE_BASE_URL',
  'FILLRATE_API_KEY',
  'FILLRATE_AUTH',
  'FILLRATE_WEBHOOK_SECRET',
  'FILLRATE_PUBLIC_URL',
  'FILLRATE_PORT',
  'FILLRATE_HOST',
  'FILLRATE_DASHBOARD_TOKEN',
  'FILLRATE_DASHBOARD_READ_TOKEN',
  'FILLRATE_DASHBOARD_URL',
  'FILLRATE_NOTIFY_URL',
  'LOG_LEVEL',
]

const unset = {
  ...testEnvironment('', ''),
  databaseUrl: null,
  maxConnections: null,
  baseUrl: null,
  apiKey: null,
  logLevel: null,
}

function environmentProblems(env: NodeJS.ProcessEnv): ConfigProblems {
  try {
    readEnvironment(env)
  } catch (error) {
    if (error instanceof ConfigProblems) return error
    throw error
  }
  throw new Error('the environment was read')
}

/** The message of the error; undefined for a valid environment. */
function messageOf(env: NodeJS.ProcessEnv): string {
  try {
    readEnvironment(env)
    return ''
  } catch (error) {
    return String(error)
  }
}

const advice = (part: string | null): unknown => (part === null ? null : expect.stringContaining(part))

describe('the environment', () => {
  test('may be empty', () => {
    expect(readEnvironment({})).toEqual(unset)
    expect(
      readEnvironment({ DATABASE_URL: '', FILLRATE_API_KEY: ' ', FILLRATE_PORT: '', PATH: '/bin' }),
    ).toEqual(unset)
  })

  test('is read in full', () => {
    const environment = readEnvironment({
      DATABASE_URL: ' postgresql://jane:p%40ss@db.internal:5433/crm?sslmode=require\n',
      FILLRATE_MAX_CONNECTIONS: '25',
      FILLRATE_BASE_URL: 'HTTPS://api.example.com/eu//',
      FILLRATE_API_KEY: 'a-key',
      FILLRATE_AUTH: 'X-API-Key',
      FILLRATE_WEBHOOK_SECRET: 'new secret,old',
      FILLRATE_PUBLIC_URL: 'https://fillrate.example.com/',
      FILLRATE_PORT: '0',
      FILLRATE_HOST: '[::]',
      FILLRATE_DASHBOARD_TOKEN: 'anna:0123456789abcdef, a-token-of-nobody-special',
      FILLRATE_DASHBOARD_READ_TOKEN: 'grafana:fedcba9876543210',
      FILLRATE_DASHBOARD_URL: 'https://ops.example.com/fillrate/',
      FILLRATE_NOTIFY_URL: 'https://hooks.example.com/T0/B0?x=1',
      LOG_LEVEL: 'DEBUG',
    })
    expect(environment).toEqual({
      databaseUrl: 'postgresql://jane:p%40ss@db.internal:5433/crm?sslmode=require',
      maxConnections: 25,
      baseUrl: 'https://api.example.com/eu',
      apiKey: 'a-key',
      auth: 'x-api-key',
      webhookSecrets: ['new secret', 'old'],
      publicUrl: 'https://fillrate.example.com',
      port: 0,
      host: '::',
      dashboardTokens: [
        { name: 'anna', role: 'operator', secret: '0123456789abcdef' },
        { name: 'operator', role: 'operator', secret: 'a-token-of-nobody-special' },
        { name: 'grafana', role: 'reader', secret: 'fedcba9876543210' },
      ],
      dashboardUrl: 'https://ops.example.com/fillrate',
      notifyUrl: 'https://hooks.example.com/T0/B0?x=1',
      logLevel: 'debug',
    })
  })

  test('links lead to the public address unless the dashboard has one of its own', () => {
    const env = { FILLRATE_PUBLIC_URL: 'https://hooks.example.com' }
    expect(readEnvironment(env).dashboardUrl).toBe('https://hooks.example.com')
    expect(messageOf({ FILLRATE_DASHBOARD_URL: 'ops.example.com' })).toContain(
      "the dashboard's http or https URL",
    )
  })

  test('is valid in .env.example', () => {
    const example = readFileSync(new URL('../../../.env.example', import.meta.url), 'utf8')
    const env = parseEnv(example)
    expect(Object.keys(env).toSorted()).toEqual(variables.toSorted())
    expect(readEnvironment(env)).toMatchObject({ auth: 'bearer', port: 8080, apiKey: null, logLevel: 'info' })
  })

  test.each([
    'postgres:///crm',
    'postgres://%2Fvar%2Frun%2Fpostgresql/crm',
    'postgres:///crm?host=/var/run/postgresql',
    'postgres://jane@localhost',
  ])('accepts %s as a database', (url) => {
    expect(readEnvironment({ DATABASE_URL: url }).databaseUrl).toBe(url)
  })

  test.each([
    ...[
      'host=db password=s3cret',
      'mysql://jane:s3cret@db/crm',
      'postgres://jane:s3cret#1@db/crm',
      'postgres://jane:1/s3cret@db/crm',
      'postgres://jane:1?s3cret@db/crm',
      'postgres://jane:s3 cret@db/crm',
    ].map((url): [string, string, string, string] => [
      'DATABASE_URL',
      url,
      'no connection URL that can be read (not shown',
      '# as %23',
    ]),
    ['FILLRATE_MAX_CONNECTIONS', '1', "'1'", null],
    ['FILLRATE_BASE_URL', 'api.example.com', "'api.example.com'", 'Start it with https://'],
    ['FILLRATE_BASE_URL', 'ftp://api.example.com', "'ftp://api.example.com'", 'https://'],
    ['FILLRATE_BASE_URL', 'https://api.example.com/v1/', "'https://api.example.com/v1/'", 'Leave /v1 off'],
    ['FILLRATE_BASE_URL', 'https://jane:s3cret@api.example.com', 'a URL with a user name', 'Leave it out'],
    ['FILLRATE_BASE_URL', 'https://api.example.com?api_key=s3cret', 'a URL with a user', '_AUTH=query'],
    [
      'FILLRATE_PUBLIC_URL',
      'https://me.example.com/webhooks/enrichment',
      "'https://me.example.com/webhooks/enrichment'",
      'Leave /webhooks/enrichment off',
    ],
    ['FILLRATE_PUBLIC_URL', 'https://me.example.com/?token=s3cret', 'a URL with a user name', 'Leave it out'],
    ['FILLRATE_API_KEY', '"s3cret"', 'a key in quotes (not shown)', null],
    ['FILLRATE_API_KEY', 'Bearer s3cret', 'a key with the word Bearer before it (not shown)', null],
    ['FILLRATE_API_KEY', 's3 cret', 'a key with white space in it (not shown)', null],
    ['FILLRATE_API_KEY', 'new,s3cret', 'a key with a comma in it (not shown)', null],
    ['FILLRATE_API_KEY', 's3crét', 'a key with characters that a header cannot hold (not shown)', null],
    ['FILLRATE_AUTH', 'bearr', "'bearr'", "Did you mean 'bearer'?"],
    ['FILLRATE_PORT', '65536', "'65536'", null],
    ['FILLRATE_PORT', 'http', "'http'", null],
    ['FILLRATE_HOST', '0.0.0.0:8080', "'0.0.0.0:8080'", 'FILLRATE_PORT'],
    ['FILLRATE_HOST', 'http://localhost', "'http://localhost'", 'FILLRATE_PORT'],
    ['FILLRATE_DASHBOARD_TOKEN', 's3 cret', 'a token with white space in it (not shown)', 'openssl rand'],
    ['FILLRATE_DASHBOARD_TOKEN', 'x', 'a token of 1 characters (not shown)', 'openssl rand'],
    ['LOG_LEVEL', 'warning', "'warning'", "Did you mean 'warn'?"],
    ['FILLRATE_API_KEYS', 's3cret', 'an unknown variable', 'Rename it to FILLRATE_API_KEY.'],
    [
      'FILLRATE_DATABASE_URL',
      'postgres://jane:s3cret@db',
      'an unknown variable',
      'Rename it to DATABASE_URL.',
    ],
  ])('rejects %s=%s', (name, value, found, todo) => {
    const error = environmentProblems({ [name]: value })
    expect(error.problems).toEqual([
      {
        place: name,
        found: expect.stringContaining(found),
        expected: expect.any(String),
        todo: advice(todo),
      },
    ])
    expect(error.message).not.toContain('s3')
  })

  test('is reported all at once', () => {
    expect(
      environmentProblems({ FILLRATE_PORT: 'x', LOG_LEVEL: 'x', FILLRATE_AUTH: 'x' }).problems,
    ).toHaveLength(3)
  })

  test('ignores other variables', () => {
    expect(
      readEnvironment({
        FILLRATE_HOST: '::1',
        FILLRATE_POST: 'x',
        FILLRATE_SHOE_SIZE: '41',
        FILLRATE_PORT: '1',
      }),
    ).toEqual({
      ...unset,
      host: '::1',
      port: 1,
    })
  })

  test('reads proxies in either case, and none if none is set', () => {
    expect(readEnvironment({ NO_PROXY: 'a.example' })).not.toHaveProperty('proxies')
    expect(
      readEnvironment({
        https_proxy: 'http://jane:p@proxy.example:3128',
        HTTPS_PROXY: 'http://other.example',
        HTTP_PROXY: 'proxy.example:3128',
        no_proxy: 'a.example,.b.example',
      }).proxies,
    ).toEqual({
      https: 'http://jane:p@proxy.example:3128/',
      http: 'http://proxy.example:3128/',
      noProxy: 'a.example,.b.example',
    })
    expect(messageOf({ HTTPS_PROXY: 'socks5://jane:s3cret@proxy' })).toMatch(/HTTPS_PROXY.*not shown/s)
    expect(messageOf({ HTTPS_PROXY: 'socks5://jane:s3cret@proxy' })).not.toContain('s3cret')
  })

  test('never shows a potential secret', () => {
    const secret = fc.stringMatching(/^[a-z]{10}[a-z@:/?#% ,"'é]{0,10}[a-z]{10}$/)
    const around = fc.constantFrom(
      (s: string) => s,
      (s: string) => `postgres://jane:${s}@db/crm`,
      (s: string) => `https://jane:${s}@api.example.com`,
      (s: string) => `https://api.example.com/?key=${s}`,
      (s: string) => `Bearer ${s}`,
    )
    const secrets = [
      'DATABASE_URL',
      'FILLRATE_API_KEY',
      'FILLRATE_WEBHOOK_SECRET',
      'FILLRATE_DASHBOARD_TOKEN',
      'FILLRATE_DASHBOARD_READ_TOKEN',
    ]
    let rejectedCount = 0
    fc.assert(
      fc.property(fc.constantFrom(...secrets), secret, around, (name, s, frame) => {
        const message = messageOf({ [name]: frame(s) })
        if (message !== '') rejectedCount++
        return !message.includes(s.slice(0, 10)) && !message.includes(s.slice(-10))
      }),
      { numRuns: 500 },
    )
    expect(rejectedCount).toBeGreaterThan(50)
  })
})

describe('the variables of services with names', () => {
  const env = {
    FILLRATE_BASE_URL: 'https://only.example.com',
    FILLRATE_API_KEY: 'key-of-the-only-one',
    FILLRATE_ACME_BASE_URL: 'https://api.acme.example/v2/',
    FILLRATE_ACME_API_KEY: 'acme-key',
    FILLRATE_ACME_AUTH: 'basic',
    FILLRATE_ACME_WEBHOOK_SECRET: 'acme-secret',
    FILLRATE_PEOPLE_DATA_2_API_KEY: 'pdl-key',
    FILLRATE_PUBLIC_URL: 'https://fillrate.example.com',
  }

  test('are those of the service, and what is not its own is the same for all', () => {
    const environment = readEnvironment(env)
    expect(environmentOf(environment, null)).toBe(environment)
    expect(environmentOf(environment, 'acme')).toMatchObject({
      prefix: 'FILLRATE_ACME_',
      baseUrl: 'https://api.acme.example/v2',
      apiKey: 'acme-key',
      auth: 'basic',
      webhookSecrets: ['acme-secret'],
      publicUrl: 'https://fillrate.example.com',
    })
    const named = environmentOf(environment, 'people-data.2')
    expect(named).toMatchObject({ baseUrl: null, apiKey: 'pdl-key', auth: 'bearer', webhookSecrets: [] })
    // Nothing of the only service is another's.
    expect(environmentOf(environment, 'other')).toMatchObject({ baseUrl: null, apiKey: null })
    expect(environmentOf(named, 'acme')).toEqual(environmentOf(environment, 'acme'))
  })

  test('are named in what is wrong with them', () => {
    const { problems } = environmentProblems({
      FILLRATE_ACME_BASE_URL: 'https://jane:s3cret@api.acme.example',
      FILLRATE_ACME_API_KEY: 'two words',
      FILLRATE_ACME_AUTH: 'bearr',
    })
    expect(problems.map(({ place }) => place)).toEqual([
      'FILLRATE_ACME_BASE_URL',
      'FILLRATE_ACME_API_KEY',
      'FILLRATE_ACME_AUTH',
    ])
    expect(JSON.stringify(problems)).not.toMatch(/s3cret|two words/)
  })

  test('are masked where they are secret', () => {
    const mask = createSecretMask({ ...env, FILLRATE_ACME_API_KEY: 'client-id:client-secret' })
    expect(mask('client-secret, acme-secret and pdl-key of https://api.acme.example')).toBe(
      '***, *** and *** of https://api.acme.example',
    )
  })

  test('give the address of each: its host, with its name where two share one', () => {
    const environment = readEnvironment({
      ...env,
      FILLRATE_SPARE_BASE_URL: 'https://API.acme.example/v2',
      FILLRATE_PDL_BASE_URL: 'https://api.pdl.example',
    })
    const addressOf = (serviceName: string | null, serviceNames: readonly string[]) =>
      configuredAddress(serviceName, { serviceNames }, environment)
    expect(addressOf(null, [])).toBe('only.example.com')
    expect(addressOf('acme', ['acme', 'pdl'])).toBe('api.acme.example/v2')
    const all = ['acme', 'pdl', 'spare', 'none']
    expect(all.map((name) => addressOf(name, all))).toEqual([
      'api.acme.example/v2/acme',
      'api.pdl.example',
      'api.acme.example/v2/spare',
      null,
    ])
  })
})
