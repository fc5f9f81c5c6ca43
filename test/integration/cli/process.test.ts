import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readVersion } from '../../../src/util/version.ts'

// What only a process of its own shows: environment, colors, exit code.

const MAIN = resolve(import.meta.dirname, '../../../src/main.ts')
const ESCAPE = '\u001b['

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'fillrate-process-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function fillrate(env: Record<string, string>, ...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], {
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', ...env },
    encoding: 'utf8',
  })
  return { status, stdout, stderr }
}

test('ends after its command, whatever keeps the event loop alive', () => {
  const busy = '--import=data:text/javascript,setInterval(()=>{},1000)'
  expect(fillrate({ NODE_OPTIONS: busy }, '--version')).toMatchObject({
    status: 0,
    stdout: `${readVersion()}\n`,
  })
  expect(fillrate({ NODE_OPTIONS: busy }, 'rnu').status).toBe(2)
})

describe('--json', () => {
  test('after -- it is no option', () => {
    expect(fillrate({}, 'rnu', '--', '--json').stdout).toBe('')
  })
})

test('FORCE_COLOR colors a pipe, unless it is 0', () => {
  expect(fillrate({}, 'rnu').stderr).not.toContain(ESCAPE)
  expect(fillrate({ FORCE_COLOR: '1' }, 'rnu').stderr).toContain(ESCAPE)
  expect(fillrate({ FORCE_COLOR: '' }, 'rnu').stderr).toContain(ESCAPE)
  expect(fillrate({ FORCE_COLOR: '0' }, 'rnu').stderr).not.toContain(ESCAPE)
})

describe('.env', () => {
  test('is read, and a missing one is no problem', () => {
    expect(fillrate({}, '--version').stderr).toBe('')
    writeFileSync(join(folder, '.env'), '\uFEFFDATABASE_URL=postgres://ada@127.0.0.1:1/crm\n')
    expect(fillrate({}, 'migrate').stderr).toContain('ada@127.0.0.1:1/crm: connection refused')
    rmSync(join(folder, '.env'))
  })

  test('that is a directory stops a command that reads it', () => {
    mkdirSync(join(folder, '.env'))
    const ended = fillrate({}, 'migrate')
    expect(ended.status).toBe(2)
    expect(ended.stderr).toMatch(
      /^fillrate: 1 problem in the environment:\n\n {2}\.env\n {4}found +a directory\n/,
    )
    expect(fillrate({}, '--version').stdout).toBe(`${readVersion()}\n`)
    rmSync(join(folder, '.env'), { recursive: true })
  })

  test.skipIf(process.getuid?.() === 0)('that this user may not read is reported', () => {
    writeFileSync(join(folder, '.env'), 'A=b\n')
    chmodSync(join(folder, '.env'), 0)
    expect(fillrate({}, 'migrate').stderr).toMatch(/cannot be read: .*permission denied/i)
    rmSync(join(folder, '.env'))
  })
})
