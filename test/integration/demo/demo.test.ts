import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, type TestContext } from 'vitest'
import { showSmallDemo } from './small-demo.ts'

async function newFolder(onTestFinished: TestContext['onTestFinished']): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'fillrate-demo-'))
  // Root's Postgres runs as another user.
  await chmod(folder, 0o755)
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const readPostmaster = async (folder: string): Promise<number> =>
  Number((await readFile(join(folder, '.fillrate/data/postmaster.pid'), 'utf8')).split('\n')[0])

const waitingRows = (stdout: string): string[] => stdout.match(/^ +waiting +\d+/gm) ?? []

test.concurrent('plans, runs, shows people before and after, and repeats no lookup when run again', async ({
  onTestFinished,
}) => {
  const folder = await newFolder(onTestFinished)
  const first = await showSmallDemo({ folder })
  expect(first.exit).toBe(0)
  const parts = [
    'a CRM of 80 companies and 600 people',
    '$ fillrate plan',
    '$ fillrate run',
    'Run 1 completed',
  ]
  expect(parts.filter((part) => !first.stdout.includes(part))).toEqual([])
  expect(first.stdout).toMatch(/\$ fillrate status[\s\S]*before and after[\s\S]*kept[\s\S]*What next/)
  // Both services filled something, the second one for those that the first did not know.
  for (const name of ['acme', 'beta']) expect(first.stdout).toMatch(new RegExp(`^ +${name} +\\d+ .*EUR`, 'm'))
  expect(first.stdout).not.toContain('No lookup was repeated')

  const second = await showSmallDemo({ folder })
  expect(second.exit).toBe(0)
  expect(second.stdout).toContain('the CRM of the last demo')
  expect(second.stdout).toContain('No lookup was repeated: the services got no call.')

  // With --keep it serves the dashboard and keeps everything open, until it is interrupted.
  const interrupt = new AbortController()
  let dashboard: Promise<string> | null = null
  const shown = await showSmallDemo({
    folder,
    keep: true,
    signal: interrupt.signal,
    onText: (text) => {
      const url = /the dashboard: (http:\S+)[\s\S]*Ctrl-C stops/.exec(text)?.[1]
      if (url === undefined) return
      dashboard ??= fetch(url)
        .then((response) => response.text())
        .finally(() => interrupt.abort())
    },
  })
  expect(await dashboard).toContain('contacts')
  expect(shown.exit).toBe(0)
  expect(shown.stdout).toMatch(/cd \.fillrate[\s\S]*explain contacts \d+/)
  expect(await readFile(join(folder, '.fillrate/.env'), 'utf8')).toMatch(/^DATABASE_URL='postgres:/)
})

test.concurrent('stops when interrupted; the next demo continues', async ({ onTestFinished }) => {
  const folder = await newFolder(onTestFinished)
  const interrupt = new AbortController()
  const { exit, stdout } = await showSmallDemo({
    folder,
    signal: interrupt.signal,
    onFrame: (frame) => {
      if (/[1-9]\d* (?:looked up|lookups)/.test(frame)) interrupt.abort()
    },
  })
  expect(exit).toBe(130)
  expect(stdout).toContain('The next demo goes on where this one was.')
  const rest = await showSmallDemo({ folder })
  expect(rest.exit).toBe(0)
  expect(waitingRows(rest.stdout)).toEqual([])
})

test.concurrent('continues after a demo that was killed, whose Postgres still runs', async ({
  onTestFinished,
}) => {
  const folder = await newFolder(onTestFinished)
  await killDemo(folder, onTestFinished)
  const left = await readPostmaster(folder)
  process.kill(left, 0)
  const rest = await showSmallDemo({ folder })
  expect(rest.exit).toBe(0)
  expect(rest.stdout).toContain('the CRM of the last demo')
  expect(waitingRows(rest.stdout)).toEqual([])
  expect(() => process.kill(left, 0)).toThrow('ESRCH')
})

test.concurrent('continues after a demo that was killed together with its Postgres', async ({
  onTestFinished,
}) => {
  const folder = await newFolder(onTestFinished)
  await killDemo(folder, onTestFinished)
  process.kill(await readPostmaster(folder), 'SIGKILL')
  const rest = await showSmallDemo({ folder })
  expect(rest.exit).toBe(0)
  expect(waitingRows(rest.stdout)).toEqual([])
})

test.concurrent('two demos at once in one folder: the second says so', async ({ onTestFinished }) => {
  const folder = await newFolder(onTestFinished)
  let second: Promise<unknown> | null = null
  await showSmallDemo({
    folder,
    onText: (text) => {
      if (text.includes('$ fillrate plan'))
        second ??= showSmallDemo({ folder }).catch((error: unknown) => error)
    },
  })
  expect(String(await second)).toContain('Another demo runs in this folder')
})

async function killDemo(folder: string, onTestFinished: TestContext['onTestFinished']): Promise<void> {
  const script = new URL('killed-demo.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [script, folder], { stdio: 'inherit' })
  onTestFinished(() => void child.kill('SIGKILL'))
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL'])
}
