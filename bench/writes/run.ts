import { execFile } from 'node:child_process'
import { parseArgs, promisify } from 'node:util'
import type pg from 'pg'
import { onServer } from '../../test/support/server.ts'
import { checksum } from '../throughput/crm.ts'
import { openBenchEnvironment, type BenchEnvironment } from '../throughput/environment.ts'
import { runCandidate } from '../throughput/measurement.ts'
import { startSandboxProcess, type SandboxProcess } from '../throughput/sandbox.ts'
import { describeComparison, describeWrites, type Writes } from './report.ts'

/**
 * What one run costs Postgres: WAL, CPU time, statements, and versions of rows by table. WAL and counts are the same beside
 * other load; CPU time is to be compared within one round of two trees (`--against`).
 */
const USAGE = `npx node bench/writes/run.ts [--rows 20000] [--route bulk] [--against DIR] [--rounds 3]

  --rows N        rows of the table (20,000)
  --route NAME    bulk or sync (bulk)
  --latency MS    the service's latency (0)
  --against DIR   another tree of this repository, measured in turn with this one
  --rounds N      how often each tree is measured (3 with --against, otherwise 1)
  --json          one measurement as JSON`

interface Options {
  readonly rows: number
  readonly route: 'bulk' | 'sync'
  readonly latencyMs: number
}

async function measureWrites(
  environment: BenchEnvironment,
  sandbox: SandboxProcess,
  { rows, route, latencyMs }: Options,
): Promise<Writes> {
  const database = await environment.open(rows)
  try {
    await sandbox.begin(latencyMs)
    const walStart = await onServer(database.url, readWalPosition)
    const cpuBefore = await environment.cpuMs()
    const measured = await runCandidate(
      { candidate: route, databaseUrl: database.url, service: sandbox.service, concurrency: 32 },
      null,
    )
    const cpuAfter = await environment.cpuMs()
    return await onServer(database.url, async (client) => {
      const wal = await readWal(client, walStart)
      return {
        rows,
        route,
        rowsPerSecond: (rows * 1_000) / measured.durationMs,
        nodeCpuMs: measured.cpuMs,
        postgresCpuMs: cpuAfter === null || cpuBefore === null ? null : cpuAfter - cpuBefore,
        ...wal,
        sentStatements: measured.statements,
        statements: await readStatements(client),
        tables: await readTables(client),
        checksum: await checksum(client),
      }
    })
  } finally {
    await database.drop()
  }
}

async function readWalPosition(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ lsn: string }>('select pg_current_wal_insert_lsn() as lsn')
  return rows[0]?.lsn ?? ''
}

/** All bytes since then, and those of the records that changed each table or index of this database. */
async function readWal(client: pg.Client, start: string): Promise<Pick<Writes, 'walBytes' | 'relations'>> {
  const end = await readWalPosition(client)
  await client.query('create extension if not exists pg_walinspect')
  const { rows: total } = await client.query<{ bytes: string }>('select pg_wal_lsn_diff($2, $1) as bytes', [
    start,
    end,
  ])
  const { rows: relations } = await client.query<Writes['relations'][number]>(
    `select coalesce(n.nspname || '.' || c.relname, 'others') as name, count(*)::float8 as records,
            sum(w.record_length)::float8 as "walBytes", sum(w.fpi)::float8 as "imageBytes"
       from (select start_lsn, record_length, coalesce(block_fpi_length, 0) as fpi, relfilenode
               from pg_get_wal_block_info($1, $2, false)
              where block_id = 0 and reldatabase = (select oid from pg_database where datname = current_database())) w
       left join pg_class c on pg_relation_filenode(c.oid) = w.relfilenode
       left join pg_namespace n on n.oid = c.relnamespace
      group by 1 order by 3 desc`,
    [start, end],
  )
  return { walBytes: Number(total[0]?.bytes), relations }
}

async function readStatements(client: pg.Client): Promise<Writes['statements']> {
  // The view is in the database that the server was set up in.
  await client.query('create extension if not exists pg_stat_statements')
  const { rows } = await client.query<Writes['statements'][number]>(
    `select calls::float8 as calls, total_exec_time + total_plan_time as ms, total_plan_time as "planMs", rows::float8 as rows,
            wal_bytes::float8 as "walBytes", regexp_replace(query, '\\s+', ' ', 'g') as query
       from pg_stat_statements s join pg_database d on d.oid = s.dbid
      where d.datname = current_database() and toplevel and query not like '%pg_get_wal_block_info%'
      order by 2 desc`,
  )
  return rows
}

async function readTables(client: pg.Client): Promise<Writes['tables']> {
  const { rows } = await client.query<Writes['tables'][number]>(
    `select schemaname || '.' || relname as name, n_tup_ins::float8 as inserted, n_tup_upd::float8 as updated,
            n_tup_hot_upd::float8 as hot, n_tup_del::float8 as deleted,
            pg_total_relation_size(relid)::float8 as bytes
       from pg_stat_user_tables where n_tup_ins + n_tup_upd + n_tup_del > 0 order by 2 desc, 1`,
  )
  return rows
}

async function measureHere(options: Options): Promise<Writes> {
  const environment = await openBenchEnvironment({ settings: [], statements: true, postgresLog: null })
  try {
    const sandbox = await startSandboxProcess()
    try {
      return await measureWrites(environment, sandbox, options)
    } finally {
      await sandbox.stop()
    }
  } finally {
    await environment.stop()
  }
}

/** In a process of the other tree, with its own schema and its own code. */
async function measureAt(tree: string, options: Options): Promise<Writes> {
  const args = ['--rows', `${options.rows}`, '--route', options.route, '--latency', `${options.latencyMs}`]
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [`${tree}/bench/writes/run.ts`, ...args, '--json'],
    { cwd: tree, maxBuffer: 2 ** 26 },
  )
  return JSON.parse(stdout) as Writes
}

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '20000' },
    route: { type: 'string', default: 'bulk' },
    latency: { type: 'string', default: '0' },
    against: { type: 'string' },
    rounds: { type: 'string' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
const options: Options = {
  rows: Number(values.rows.replaceAll('_', '')),
  route: values.route === 'sync' ? 'sync' : 'bulk',
  latencyMs: Number(values.latency),
}
if (values.help) console.log(USAGE)
else if (values.json) console.log(JSON.stringify(await measureHere(options)))
else if (values.against === undefined) console.log(describeWrites(await measureHere(options)))
else {
  const pairs: { here: Writes; other: Writes }[] = []
  for (let round = 0; round < Number(values.rounds ?? 3); round++) {
    const other = await measureAt(values.against, options)
    const here = await measureHere(options)
    if (here.checksum !== other.checksum) throw new Error('the two trees leave different tables')
    pairs.push({ here, other })
    console.error(describeComparison([{ here, other }]))
  }
  console.log(describeComparison(pairs))
}
