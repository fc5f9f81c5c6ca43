import { hostname } from 'node:os'
import { expect, test } from 'vitest'
import { createLog, formatLogLine } from '../../../src/cli/log.ts'
import { readVersion } from '../../../src/util/version.ts'
import { createSecretMask } from '../../../src/cli/secret-mask.ts'
import { createPaint } from '../../../src/cli/terminal.ts'
import { intoFile } from './terminal.ts'

const mask = createSecretMask({
  FILLRATE_API_KEY: 'a-key-to-hide',
  DATABASE_URL: 'postgres://crm:hidden-too@db/crm',
})

test('a dashboard token is masked without the name of its holder, too', () => {
  const hide = createSecretMask({
    FILLRATE_DASHBOARD_TOKEN: 'anna:0123456789abcdef,fedcba9876543210',
    FILLRATE_DASHBOARD_READ_TOKEN: 'grafana:0011223344556677',
  })
  expect(hide('0123456789abcdef fedcba9876543210 0011223344556677 of anna')).toBe('*** *** *** of anna')
})

test('lines for a person: absolute time, level, message, fields', () => {
  const { text, output } = intoFile()
  const log = createLog({ level: 'info', format: 'pretty', output, mask })
  log.warn(
    { step: 'settle', ms: 400, why: 'two words', nothing: null, whole: { a: 1 } },
    'waiting for Postgres',
  )
  expect(text()).toMatch(
    /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d warn {2}waiting for Postgres {2}step=settle ms=400 why="two words"\n$/,
  )
})

test('JSON lines for a program', () => {
  const { text, output } = intoFile()
  const log = createLog({ level: 'info', format: 'json', output, mask })
  log.info({ run: 3 }, 'run started')
  log.info('again')
  const lines = text()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as object)
  expect(lines).toMatchObject([
    {
      level: 'info',
      pid: process.pid,
      hostname: hostname(),
      version: readVersion(),
      run: 3,
      msg: 'run started',
    },
    { msg: 'again' },
  ])
  for (const line of lines) expect(new Date((line as { time: string }).time).getTime()).toBeGreaterThan(0)
})

test.each(['pretty', 'json'] as const)(
  'no secret is in a line, nor what an error of Postgres quotes (%s)',
  (format) => {
    const { text, output } = intoFile()
    const log = createLog({ level: 'info', format, output, mask })
    const err = Object.assign(new Error('refused a-key-to-hide'), {
      detail: 'Key (email)=(ada@example.com)',
      code: '23505',
    })
    log.error({ err, url: 'postgres://x:other-password@h/d' }, 'with a-key-to-hide and hidden-too')
    expect(text()).toContain('unique conflict: another row holds that value')
    for (const secret of ['a-key-to-hide', 'hidden-too', 'other-password', 'ada@example.com'])
      expect(text()).not.toContain(secret)
  },
)

test('a line never moves the cursor, whatever is in it', () => {
  const line = formatLogLine(
    JSON.stringify({ level: 'info', time: 0, msg: 'a\u001b[2Jb\nc', key: 'x\u001b[1A' }),
    createPaint(false),
  )
  // oxlint-disable-next-line no-control-regex
  expect(line).not.toMatch(/\u001b/)
  expect(line.trimEnd().split('\n')).toHaveLength(1)
})
