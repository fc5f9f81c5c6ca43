import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import pg from 'pg'
import { startSandbox } from '../src/sandbox/server.ts'
import { createCommandLine } from '../test/support/cli.ts'
import { onServer } from '../test/support/server.ts'
import { RELEASED_CONFIG } from './releases/crm.ts'
import { packProgram, unpackProgram } from './releases/program.ts'
import { RELEASED_STATES } from './releases/states.ts'

// Makes test/fixtures/releases/VERSION: the program of this checkout, and dumps of the databases that it leaves behind, for
// the tests of upgrades. In a checkout of that version, on Postgres 15:
//
//   bash test/support/postgres-15.sh npm run release:dumps -- 1.0.0
//
// Until 1.0.0 is published, its program and its dumps are those of migrations/0001 alone. When that file changes, make them
// again in a worktree in which the commits of the later migrations are reverted: docs/internals/release.md.
// Tables, service and program are real. The dumps are plain SQL without COPY, which every Postgres from 14 on and every
// client takes. Times, identifiers and the order of concurrent work differ each time; what the tests rely on does not.

const [version, ...states] = process.argv.slice(2)
const server = process.env['TEST_DATABASE_URL']
if (version === undefined || server === undefined)
  throw new Error('Usage: TEST_DATABASE_URL=… npm run release:dumps -- VERSION [STATE…]')

const folder = new URL(`../test/fixtures/releases/${version}/`, import.meta.url).pathname
/** In the dumps. Tests put the address of their own service in its place. */
const SERVICE_PORT = 47_110
const KEYS = ['released-key']
const SECRET = 'released-secret'

mkdirSync(folder, { recursive: true })
const packed = join(folder, 'program.br')
await packProgram(version, packed)
const place = mkdtempSync(join(import.meta.dirname, '../.cache/released-'))
try {
  const program = unpackProgram(packed, place)
  writeFileSync(join(folder, 'config.json'), `${JSON.stringify(RELEASED_CONFIG, null, 2)}\n`)
  for (const state of states.length > 0 ? states : Object.keys(RELEASED_STATES))
    await makeDump(server, state, program)
} finally {
  rmSync(place, { recursive: true })
}

async function makeDump(server: string, state: string, program: string): Promise<void> {
  const database = `release_${state.replaceAll('-', '_')}`
  await onServer(server, async (client) => {
    await client.query(`drop database if exists ${database} with (force)`)
    await client.query(`create database ${database} template template0`)
  })
  const url = Object.assign(new URL(server), { pathname: database }).href
  const pool = new pg.Pool({ connectionString: url })
  const sandbox = await startSandbox({ port: SERVICE_PORT, keys: KEYS, webhookSecret: SECRET })
  const cli = await createCommandLine(url, sandbox, RELEASED_CONFIG, program)
  const dump = async (): Promise<void> => {
    const asked = Object.entries(sandbox.stats({ inputs: true }).inputs.all ?? {})
    await pool.query(
      `insert into service.asked select * from json_populate_recordset(null::service.asked, $1)`,
      [JSON.stringify(asked.map(([input, counts]) => ({ input, ...counts })))],
    )
    const sql = dumpDatabase(url)
    const file = join(folder, `${state}.sql.gz`)
    writeFileSync(file, gzipSync(sql, { level: 9 }))
    console.log(`${state}: ${sql.length} bytes`)
  }
  try {
    const { code, stderr } = await cli.run('migrate')
    if (code !== 0) throw new Error(stderr)
    await RELEASED_STATES[state]?.({ pool, sandbox, cli, dump })
  } finally {
    await pool.end()
    await sandbox.close()
    await cli.remove()
  }
}

/** The first line is the moment of the dump: whoever restores it moves all times. */
function dumpDatabase(url: string): string {
  const now = new Date().toISOString()
  const options = ['--no-owner', '--no-privileges', '--no-toast-compression', '--rows-per-insert=100']
  const bin = process.env['PG_DUMP'] ?? '/usr/lib/postgresql/15/bin/pg_dump'
  const sql = execFileSync(bin, [...options, url], {
    encoding: 'utf8',
    maxBuffer: 1e9,
    env: { ...process.env, TZ: 'UTC' },
  })
  // Commands of psql, which are in no other place of the dump.
  return `-- ${now}\n${sql.replaceAll(/^\\(?:un)?restrict .*\n/gm, '')}`
}
