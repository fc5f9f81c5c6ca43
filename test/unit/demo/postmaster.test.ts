import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { isAlive, isServerRunning, parsePostmaster } from '../../../src/demo/postgres/server.ts'
import { withoutPostgresSettings } from '../../../src/demo/postgres/program.ts'

test('the process and the port are read from postmaster.pid', () => {
  const text = '4711\n/work/.fillrate/postgres/data\n1790000000\n34123\n\n127.0.0.1\n  12345   6\nready   \n'
  expect(parsePostmaster(text)).toEqual({ pid: 4711, port: 34123 })
})

test.each([
  '',
  '4711',
  '4711\n/data\n1790000000\n',
  'x\n/data\n1\n5432\n',
  '-1\n/data\n1\n5432\n',
  '1\n/data\n1\n5432\n',
])('an incomplete or foreign file names no server: %j', (text) => {
  expect(parsePostmaster(text)).toBeNull()
})

test('a process with the number of a dead server is not mistaken for it', async () => {
  const data = await mkdtemp(join(tmpdir(), 'fillrate-data-'))
  onTestFinished(() => rm(data, { recursive: true }))
  expect(isAlive(process.pid)).toBe(true)
  expect(await isServerRunning(data, { pid: process.pid, port: 5432 }, process.env)).toBe(false)
})

test("settings for the user's own Postgres do not reach the demo's", () => {
  const env = {
    PATH: '/bin',
    PGDATA: '/srv/data',
    PGPORT: '5433',
    PGOPTIONS: '-c x=1',
    LC_ALL: 'nb_NO.UTF-8',
  }
  expect(withoutPostgresSettings(env)).toEqual({ PATH: '/bin', LC_ALL: 'C' })
})
