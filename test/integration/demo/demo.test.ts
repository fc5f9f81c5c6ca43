import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { expect, test, type TestContext } from 'vitest'
import { showSmallDemo } from './small-demo.ts'

async function newFolder(onTestFinished: TestContext['onTestFinished']): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'fillrate-demo-'))
  // Root's Postgres runs as another user.
  await chmod(folder, 0o755)
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

test.concurrent('plans, runs, shows people before and after, and leaves nothing behind', async ({
  onTestFinished,
}) => {
  const folder = await newFolder(onTestFinished)
  const { exit, stdout } = await showSmallDemo({ folder })
  expect(exit).toBe(0)
  const parts = [
    'a CRM of 80 companies and 600 people',
    '$ fillrate plan',
    '$ fillrate run',
    'Run 1 completed',
  ]
  expect(parts.filter((part) => !stdout.includes(part))).toEqual([])
  expect(stdout).toMatch(/\$ fillrate status[\s\S]*before and after[\s\S]*kept[\s\S]*What next/)
  // Both services filled something, the second one for those that the first did not know.
  for (const name of ['acme', 'beta']) expect(stdout).toMatch(new RegExp(`^ +${name} +\\d+ .*EUR`, 'm'))
  expect(await exists(join(folder, '.fillrate'))).toBe(false)
})

test.concurrent('with --keep, it serves the dashboard and keeps everything open until it is interrupted', async ({
  onTestFinished,
}) => {
  const folder = await newFolder(onTestFinished)
  const interrupt = new AbortController()
  const seen = Promise.withResolvers<readonly string[]>()
  const { exit, stdout } = await showSmallDemo({
    folder,
    keep: true,
    signal: interrupt.signal,
    onText: (text) => {
      const url = /(http:\S+) +every run[\s\S]*Ctrl-C stops/.exec(text)?.[1]
      if (url === undefined) return
      const page = fetch(url).then((response) => response.text())
      const settings = readFile(join(folder, '.fillrate/.env'), 'utf8')
      const another = showSmallDemo({ folder }).catch(String)
      seen.resolve(Promise.all([page, settings, another.then(String)]).finally(() => interrupt.abort()))
    },
  })
  const [page, settings, another] = await seen.promise
  expect(page).toContain('contacts')
  expect(settings).toMatch(/^DATABASE_URL='postgres:/m)
  expect(another).toContain('Another demo runs in this folder')
  expect(exit).toBe(0)
  expect(stdout).toMatch(/cd \.fillrate[\s\S]*explain contacts \d+/)
})

test.concurrent('stops when interrupted, and leaves nothing behind', async ({ onTestFinished }) => {
  const folder = await newFolder(onTestFinished)
  const interrupt = new AbortController()
  const { exit } = await showSmallDemo({
    folder,
    signal: interrupt.signal,
    onFrame: (frame) => {
      if (/[1-9]\d* (?:looked up|lookups)/.test(frame)) interrupt.abort()
    },
  })
  expect(exit).toBe(130)
  expect(await exists(join(folder, '.fillrate'))).toBe(false)
})

test.concurrent('begins anew after a demo that was killed, whose Postgres ends by itself', async ({
  onTestFinished,
  expect,
}) => {
  const folder = await newFolder(onTestFinished)
  await killDemo(folder, onTestFinished)
  const [, left = ''] =
    /^DATABASE_URL='(.*)'$/m.exec(await readFile(join(folder, '.fillrate/.env'), 'utf8')) ?? []
  const answers = async (): Promise<boolean> => {
    const client = new pg.Client(left)
    client.on('error', () => {})
    return client.connect().then(
      () => client.end().then(() => true),
      () => false,
    )
  }
  expect(await answers()).toBe(true)
  const { exit } = await showSmallDemo({ folder })
  expect(exit).toBe(0)
  await expect.poll(answers, { timeout: 90_000, interval: 1_000 }).toBe(false)
})

async function killDemo(folder: string, onTestFinished: TestContext['onTestFinished']): Promise<void> {
  const script = new URL('killed-demo.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [script, folder], { stdio: 'inherit' })
  onTestFinished(() => void child.kill('SIGKILL'))
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL'])
}
