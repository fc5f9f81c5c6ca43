import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openPostgres } from '../../../src/demo/postgres/open.ts'
import { isAlive, isServerRunning, parsePostmaster } from '../../../src/demo/postgres/server.ts'
import { onServer } from '../../support/server.ts'
import { removeDemo } from './remove.ts'

// Only its owner may enter a folder of mkdtemp: as root, Postgres could not use it.
let folder = ''
let state = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'fillrate-demo-'))
  state = join(folder, '.fillrate')
})
afterAll(() => removeDemo(folder))

test('is created once and keeps its data', async () => {
  const first = await openPostgres(state, process.env)
  await query(first.url, 'create table kept (n int); insert into kept values (7)')
  await first.stop()

  const second = await openPostgres(state, process.env)
  expect(await query(second.url, 'select n from kept')).toEqual([{ n: 7 }])
  await second.stop()
  await expect(query(second.url, 'select 1')).rejects.toThrow(/ECONNREFUSED/)
})

test('is Postgres 18 on loopback, with its own password', async () => {
  const postgres = await openPostgres(state, process.env)
  onTestFinished(() => postgres.stop())
  const settings = await query(
    postgres.url,
    `select current_setting('server_version_num')::int / 10000 as major, current_setting('listen_addresses') as listens,
            current_setting('unix_socket_directories') as sockets`,
  )
  expect(settings).toEqual([{ major: 18, listens: '127.0.0.1', sockets: '' }])
  const wrong = new URL(postgres.url)
  wrong.password = 'password'
  await expect(query(wrong.href, 'select 1')).rejects.toThrow(/password authentication failed/)
})

test('rejects a second demo in the folder while the first runs', async () => {
  const first = await openPostgres(state, process.env)
  onTestFinished(() => first.stop())
  await expect(openPostgres(state, process.env)).rejects.toThrow(/Another demo runs in this folder/)
  expect(await query(first.url, 'select 1 as one')).toEqual([{ one: 1 }])
})

test('of two that start at once, one runs and the other is rejected', async () => {
  const both = await Promise.allSettled([openPostgres(state, process.env), openPostgres(state, process.env)])
  const opened = both.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  onTestFinished(async () => {
    for (const one of opened) await one.stop()
  })
  expect(opened).toHaveLength(1)
  expect(both.find((one) => one.status === 'rejected')?.reason).toMatchObject({ name: 'DemoError' })
})

test('the server stops with a killed demo, and the next one starts at once', async () => {
  const { child, url } = await startChild()
  const pid = await postmasterPid()
  child.kill('SIGKILL')
  await once(child, 'exit')

  const next = await openPostgres(state, process.env)
  expect(await isTheServer(pid)).toBe(false)
  await next.stop()
  await expect(query(url, 'select 1')).rejects.toThrow(/ECONNREFUSED/)
})

test('the server of a killed demo stops without another demo', async () => {
  const { child } = await startChild()
  const pid = await postmasterPid()
  child.kill('SIGKILL')
  await expect.poll(() => isTheServer(pid)).toBe(false)
})

test('starts after the server was killed and its process number reused', async () => {
  const { child } = await startChild()
  const pid = await postmasterPid()
  process.kill(pid, 'SIGKILL')
  child.kill('SIGKILL')
  await once(child, 'exit')
  await expect.poll(() => isTheServer(pid)).toBe(false)
  const file = join(state, 'postgres', 'data', 'postmaster.pid')
  const text = await readFile(file, 'utf8')
  expect(isAlive(process.pid)).toBe(true)
  await writeFile(file, text.replace(/^\d+/, String(process.pid)))

  const next = await openPostgres(state, process.env)
  onTestFinished(() => next.stop())
  expect(await query(next.url, 'select n from kept')).toEqual([{ n: 7 }])
})

test('an incomplete folder is reported and left unchanged', async () => {
  const broken = await mkdtemp(join(tmpdir(), 'fillrate-demo-'))
  onTestFinished(() => rm(broken, { recursive: true }))
  await writeFile(join(broken, 'postgres'), '')
  await expect(openPostgres(broken, process.env)).rejects.toThrow(
    /does not contain the demo's Postgres.*\nRemove it/,
  )
})

const query = (url: string, sql: string): Promise<unknown[]> =>
  onServer(url, async (client) => (await client.query<pg.QueryResultRow>(sql)).rows)

/** Another process that holds the Postgres open. */
async function startChild(): Promise<{ child: ChildProcess; url: string }> {
  const script = new URL('open-postgres.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [script, state], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  return { child, url: (JSON.parse(line) as { url: string }).url }
}

const postmaster = async () =>
  parsePostmaster(await readFile(join(state, 'postgres', 'data', 'postmaster.pid'), 'utf8'))
const postmasterPid = async (): Promise<number> => (await postmaster())?.pid ?? 0
const isTheServer = (pid: number): Promise<boolean> =>
  isServerRunning(join(state, 'postgres', 'data'), { pid, port: 0 }, process.env)
