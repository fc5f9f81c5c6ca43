import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest'
import type { StatusReport } from '../../../src/actions/status.ts'
import type { FillrateNotification } from '../../../src/domain/notification.ts'
import { startSandbox, type Sandbox } from '../../../src/sandbox/server.ts'
import { createCommandLine, type CommandLine, type Started } from '../../support/cli.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { onServer } from '../../support/server.ts'

// A disk that is really full: the tablespace of the database is a small file system of its own, filled by a file.

const TITLE = 'Postgres takes no writes: its disk is full'
const canMount = process.getuid?.() === 0 && spawnSync('mount', ['--version']).status === 0

let disk: string
let database: TestDatabase
let sandbox: Sandbox
let cli: CommandLine
let hook: Server
const notices: FillrateNotification[] = []
const tablespace = `small_${process.pid}`

beforeAll(async () => {
  if (!canMount) return
  disk = mkdtempSync(join(tmpdir(), 'fillrate-disk-'))
  database = await createTestDatabase()
  await onServer(inject('postgresUrl'), async (client) => {
    const { rows } = await client.query<{ data_directory: string }>('show data_directory')
    const { uid } = statSync(rows[0]?.data_directory ?? '')
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=64m,uid=${uid},mode=700`, 'tmpfs', disk])
    await client.query(`create tablespace ${tablespace} location '${disk}'`)
    await client.query(
      `alter database ${new URL(database.url).pathname.slice(1)} set tablespace ${tablespace}`,
    )
  })
  await createCrm(database.pool, 4_000)
  sandbox = await startSandbox({ latencyAfterMs: 300, missingShare: 0, notFoundShare: 0, limit: 100_000 })
  hook = createServer((request, response) => {
    let body = ''
    request.on('data', (text) => (body += text))
    request.on('end', () => {
      notices.push(JSON.parse(body) as FillrateNotification)
      response.end()
    })
  })
  await new Promise<void>((resolve) => hook.listen(0, '127.0.0.1', resolve))
  const { port } = hook.address() as AddressInfo
  cli = await createCommandLine(database.url, sandbox, {
    ...crmConfig,
    notify: [{ url: `http://127.0.0.1:${port}/`, on: ['error', 'warning'] }],
  })
})
afterAll(async () => {
  if (!canMount) return
  hook.close()
  await cli.remove()
  await sandbox.close()
  await database.drop()
  await onServer(inject('postgresUrl'), (client) => client.query(`drop tablespace ${tablespace}`))
  execFileSync('umount', [disk])
  rmSync(disk, { recursive: true })
})

/** Fills the disk to the last block. */
function fillDisk(): () => void {
  const file = join(disk, 'filler')
  spawnSync('dd', ['if=/dev/zero', `of=${file}`, 'bs=4k'], { stdio: 'ignore' })
  return () => rmSync(file)
}

/** A process, and what it prints. */
function watch({ child, ended }: Started) {
  let text = ''
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (part: string) => (text += part))
  const lines = () =>
    text
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Record<string, unknown>)
  return {
    child,
    ended,
    text: () => text,
    lines,
    logged: (event: string) =>
      lines().filter((line) => line['event'] === event && line['code'] === 'database_away'),
  }
}

test.skipIf(!canMount)(
  'a full disk is one trouble on every channel within seconds, in every process, and ends with the mend',
  async () => {
    const [start, serve] = [watch(cli.start('start', '--json')), watch(cli.start('serve', '--json'))]
    const urls: string[] = []
    for (const { lines } of [start, serve]) {
      await expect.poll(() => lines().some((line) => 'listens' in line)).toBe(true)
      urls.push(String(lines().find((line) => 'listens' in line)?.['listens']))
    }
    const run = watch(cli.start('run', '--route', 'sync', '--json'))
    const processes = [start, serve, run]
    onTestFinished(() => processes.forEach(({ child }) => child.kill('SIGKILL')))
    await expect.poll(() => sandbox.stats().calls.accepted).toBeGreaterThan(200)
    const empty = fillDisk()
    const read = async (url: string) => {
      const { troubles } = (await (await fetch(`${url}/api/status`)).json()) as StatusReport
      return troubles.map(({ code, title }) => `${code}: ${title}`)
    }
    for (const one of processes) await expect.poll(() => one.logged('trouble_began')).toHaveLength(1)
    for (const url of urls) {
      await expect.poll(() => read(url)).toEqual([`database_away: ${TITLE}`])
      expect(await (await fetch(`${url}/metrics`)).text()).toMatch(
        /fillrate_trouble\{code="database_away".*\} 1/,
      )
      expect(await (await fetch(`${url}/`)).text()).toContain(TITLE)
    }
    // Another process, which has met nothing.
    expect((await cli.run('status')).stdout).toContain(TITLE)
    // The progress of the run says it, and blames no one else.
    await expect.poll(() => run.text()).toMatch(new RegExp(`"event":"progress".*${TITLE}`))
    expect(run.text()).not.toContain('another process calls the service')
    // Nothing can be stored, and one process notifies for all.
    await expect
      .poll(() => notices.map(({ event, title }) => `${event}: ${title}`))
      .toEqual([`trouble_began: ${TITLE}`])
    empty()
    for (const url of urls) await expect.poll(() => read(url)).toEqual([])
    for (const one of processes) await expect.poll(() => one.logged('trouble_ended')).toHaveLength(1)
    await expect.poll(() => notices.map(({ event }) => event)).toEqual(['trouble_began', 'trouble_ended'])
    expect(await run.ended).toMatchObject({ code: 0 })
    expect(
      JSON.parse(
        run
          .text()
          .split('\n')
          .findLast((line) => line.includes('"rows_by_source"')) ?? '',
      ),
    ).toMatchObject({
      rows: { picked: 4_000, enriched: 4_000 },
    })
    for (const { child, ended } of [start, serve]) {
      child.kill('SIGTERM')
      expect((await ended).code).toBe(0)
    }
    const { rows } = await database.pool.query('select code, ended_at from fillrate.troubles')
    expect(rows).toEqual([{ code: 'database_away', ended_at: expect.any(Date) }])
    expect(notices).toHaveLength(2)
    // Begin and end, once each, and nothing else above debug.
    for (const one of processes)
      expect(one.lines().filter(({ level }) => level === 'warn' || level === 'error')).toMatchObject([
        { event: 'trouble_began', code: 'database_away' },
      ])
  },
)
