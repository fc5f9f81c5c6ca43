import type pg from 'pg'

export const STATEMENT_SETTINGS = [
  'shared_preload_libraries=pg_stat_statements',
  'track_io_timing=on',
  'pg_stat_statements.track_planning=on',
]

export async function resetStatements(client: pg.Client): Promise<void> {
  await client.query('create extension if not exists pg_stat_statements')
  await client.query('select pg_stat_statements_reset()')
}

interface Cost {
  readonly calls: number
  readonly total: number
  readonly planning: number
  readonly mean: number
  readonly rows: number
  readonly hits: number
  readonly wal: number
  readonly query: string
}

/** The statements of a database that cost most, with their calls and costs. */
export async function slowestStatements(client: pg.Client, database: string): Promise<string> {
  const { rows } = await client.query<Cost>(
    `select calls::float8 as calls, total_exec_time as total,
            total_plan_time as planning, mean_exec_time as mean, rows::float8 as rows,
            (shared_blks_hit + shared_blks_read)::float8 / nullif(calls, 0) as hits, wal_bytes::float8 / 1048576 as wal,
            regexp_replace(query, '\\s+', ' ', 'g') as query
       from pg_stat_statements s join pg_database d on d.oid = s.dbid
      where d.datname = $1 order by total_exec_time + total_plan_time desc limit 20`,
    [database],
  )
  const line = (cost: Cost): string =>
    `  ${Math.round(cost.total)} ms and ${Math.round(cost.planning)} ms of planning in ${cost.calls} calls of ${cost.mean.toFixed(2)} ms, ${cost.rows} rows, ` +
    `${Math.round(cost.hits)} pages a call, ${cost.wal.toFixed(1)} MiB of WAL: ${cost.query.slice(0, 110)}`
  return rows.map(line).join('\n')
}
