import type pg from 'pg'
import { FAILURE_STATES } from '../../src/domain/row.ts'
import type { Sandbox } from '../../src/sandbox/server.ts'
import { CONCURRENCY } from './scenario.ts'

/** What must be the same whatever faults are injected: by name, as text. */
export interface Snapshot {
  readonly rows: ReadonlyMap<string, string>
  readonly records: ReadonlyMap<string, string>
  readonly cells: ReadonlyMap<string, string>
}

/** Violations of the guarantees. All are 0, except `inDoubt` after a kill with calls on the wire. */
export interface InvariantReport {
  readonly rowsLost: number
  readonly recordsLost: number
  /** Inputs billed more often than once plus once for each unconfirmed call, which includes those whose job gave no result. */
  readonly paidTwice: number
  readonly cellsWrong: number
  /** More lookups in doubt than `look-up.ts` promises, three per slot, a job posted twice, or a wrong count of rows or of spend. */
  readonly otherFaults: number
  readonly inDoubt: number
}

export async function takeSnapshot(pool: pg.Pool): Promise<Snapshot> {
  const read = async (query: string): Promise<ReadonlyMap<string, string>> =>
    new Map(
      (await pool.query<{ name: string; value: string }>(query)).rows.map((row) => [row.name, row.value]),
    )
  return {
    // A row written in the last commit before the kill may be picked again, and is then unchanged.
    rows: await read(
      `select case when deleted_at is not null then 'deleted ' else '' end || source || ' ' || key as name,
              case when state = 'unchanged' and exists (select from fillrate.changes c where c.source = r.source and c.key = r.key)
                   then 'enriched' else state end as value
         from fillrate.rows r
        union all
       select concat_ws(' ', source, key, "column"), concat_ws(' ', reason, detail, value::text) from fillrate.skipped_cells
        union all
       select 'own ' || source || ' ' || key, own_writes::text from fillrate.rows where own_writes is not null
        union all
       select 'written ' || source || ' ' || key, concat_ws(' ', (last_written - 'enriched_at')::text, (earlier_writes - 'enriched_at')::text)
         from fillrate.rows`,
    ),
    records: await read(
      `select concat_ws(' ', coalesce(s.name, s.id::text), kind, key) as name, state || coalesce(record::text, '') as value
         from fillrate.lookups l join fillrate.services s on s.id = l.service_id`,
    ),
    cells: await read(
      `select 'contacts ' || id as name, (to_jsonb(t) - 'enriched_at')::text as value from crm.contacts t
        union all select 'accounts ' || id, to_jsonb(t)::text from crm.accounts t`,
    ),
  }
}

/** Names whose text is not the same in both. */
export const differences = (
  found: ReadonlyMap<string, string>,
  expected: ReadonlyMap<string, string>,
): string[] =>
  [...new Set([...found.keys(), ...expected.keys()])].filter((name) => found.get(name) !== expected.get(name))

/** What the services of a trial have counted, by their names; one alone has none. */
type Counted = Readonly<Record<string, Pick<Sandbox, 'stats'>>>

/** Compares the result with that of a run without faults, and with what each service counted. */
export async function checkInvariants(
  {
    database: { pool },
    sandboxes,
  }: { readonly database: { readonly pool: pg.Pool }; readonly sandboxes: Counted },
  { expected }: { readonly expected: Snapshot },
): Promise<InvariantReport> {
  const found = await takeSnapshot(pool)
  const { rows } = await pool.query<{ service: string; key: string; calls: number; sync_only: boolean }>(
    `select coalesce(s.name, '') as service, key, unconfirmed_calls as calls, sync_only
       from fillrate.lookups l join fillrate.services s on s.id = l.service_id where unconfirmed_calls > 0`,
  )
  const unconfirmed = new Map(rows.map(({ service, key, calls }) => [`${service} ${key}`, calls]))
  const paid = Object.entries(sandboxes).flatMap(([service, sandbox]) =>
    Object.entries(sandbox.stats({ inputs: true }).inputs.all ?? {}).map(([key, one]) => ({
      ...one,
      allowed: 1 + (unconfirmed.get(`${service} ${key.replace(/^\w+:/, '')}`) ?? 0),
    })),
  )
  const paidTwice = paid.filter((one) => one.single + one.bulk + one.unanswered > one.allowed)
  const doubted = Object.keys(sandboxes).filter(
    (name) => rows.filter((row) => row.service === name && !row.sync_only).length > 3 * CONCURRENCY,
  )
  const miscounted = [...(await findMiscounted(pool)), ...(await findMisnamedFailures(pool))]
  const spendFaults = await findSpendFaults(pool, sandboxes)
  const postedTwice = paid.filter((one) => one.bulk > 1)
  return {
    rowsLost: differences(found.rows, expected.rows).length,
    recordsLost: differences(found.records, expected.records).length,
    paidTwice: paidTwice.length,
    cellsWrong: differences(found.cells, expected.cells).length + (await countWrittenTwice(pool)),
    otherFaults: [postedTwice, miscounted, spendFaults, doubted].flat().length,
    inDoubt: rows.reduce((sum, row) => sum + row.calls, 0),
  }
}

/** The run by which a row is counted: the one that it waits for, or that is in progress. */
const COUNTED_RUN = `case when state = 'waiting' or run_id in (select id from fillrate.runs where state = 'running')
                          then coalesce(run_id, 0) else 0 end as run`

/** States whose kept number of rows is not that of the rows. */
export async function findMiscounted(pool: pg.Pool): Promise<string[]> {
  const { rows } = await pool.query<{ source: string; state: string; kept: number; counted: number }>(`
    select source, state, coalesce(kept, 0)::int as kept, coalesce(counted, 0)::int as counted
      from (select source, state, ${COUNTED_RUN}, sum(rows) as kept from fillrate.row_counts group by 1, 2, 3) k
      full join (select source, state, ${COUNTED_RUN}, count(*) as counted
                   from fillrate.rows where deleted_at is null group by 1, 2, 3) c using (source, state, run)
     where coalesce(kept, 0) <> coalesce(counted, 0)`)
  return rows.map(
    ({ source, state, kept, counted }) => `${source} ${state}: ${kept} kept, ${counted} counted`,
  )
}

/** Keys of rows whose `failure` is not what their state says. */
export async function findMisnamedFailures(pool: pg.Pool): Promise<string[]> {
  const { rows } = await pool.query<{ key: string }>(
    `select key from fillrate.rows
      where failure is distinct from case when deleted_at is null and state = any($1) then state end`,
    [FAILURE_STATES],
  )
  return rows.map(({ key }) => key)
}

/** Where the kept spend is not what a service has counted, in lookups: those in doubt may or may not be billed. */
export async function findSpendFaults(pool: pg.Pool, services: Counted): Promise<string[]> {
  const { rows } = await pool.query<{ service: string; lookups: number; doubt: number }>(`
    select coalesce(s.name, '') as service, sum(lookups)::int as lookups, sum(in_doubt)::int as doubt
      from fillrate.spend p join fillrate.services s on s.id = p.service_id
     group by 1`)
  return Object.entries(services).flatMap(([name, sandbox]) => {
    const { lookups = 0, doubt = 0 } = rows.find(({ service }) => service === name) ?? {}
    const { requested_singly, requested_in_bulk, unanswered } = sandbox.stats().inputs
    const billed = requested_singly + requested_in_bulk + unanswered
    return lookups <= billed && billed <= lookups + doubt
      ? []
      : [`${name} ${lookups} lookups and ${doubt} in doubt are kept, and the service billed ${billed}`]
  })
}

/** Rows that a service has written more than once, and cells that were, but for the stamp, which each service writes. */
async function countWrittenTwice(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(`
    select count(*)::int as count from (
      select from fillrate.changes c join fillrate.lookups l on l.id = c.lookup_id
       group by c.source, c.key, l.service_id having count(*) > 1
       union all
      select from fillrate.changes c, jsonb_object_keys(after - 'enriched_at') as "column"
       group by source, key, "column" having count(*) > 1
    ) twice`)
  return rows[0]?.count ?? 0
}

/** Whether all guarantees hold. Calls in doubt are permitted. */
export const holdsInvariants = (report: InvariantReport): boolean =>
  report.rowsLost + report.recordsLost + report.paidTwice + report.cellsWrong + report.otherFaults === 0
