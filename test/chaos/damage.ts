import type pg from 'pg'
import type { Sandbox } from '../../src/sandbox/server.ts'

/** What must be the same whatever faults were made: by name, as text. */
export interface Snapshot {
  readonly rows: ReadonlyMap<string, string>
  readonly records: ReadonlyMap<string, string>
  readonly cells: ReadonlyMap<string, string>
}

/** What a fault has cost. All zero, but for what is on the wire at a kill. */
export interface Damage {
  readonly rowsLost: number
  readonly recordsLost: number
  /**
   * Inputs paid more often than once, and once for each time that they were counted as in doubt: also where their job
   * gave them no result, so that they were asked singly.
   */
  readonly paidTwice: number
  readonly cellsWrong: number
  /** More lookups in doubt than there are slots, or a job posted twice: never. */
  readonly otherwise: number
  readonly inDoubt: number
}

export async function snapshot(pool: pg.Pool): Promise<Snapshot> {
  const read = async (query: string): Promise<ReadonlyMap<string, string>> =>
    new Map(
      (await pool.query<{ name: string; value: string }>(query)).rows.map((row) => [row.name, row.value]),
    )
  return {
    // A row that the dead one's last commit has written may be picked once more, and then there is nothing left to do.
    rows: await read(
      `select source || ' ' || key as name,
              case when state = 'unchanged' and exists (select from fillrate.changes c where c.source = r.source and c.key = r.key)
                   then 'enriched' else state end as value
         from fillrate.rows r`,
    ),
    records: await read(
      `select kind || ' ' || key as name, state || coalesce(record::text, '') as value from fillrate.lookups`,
    ),
    cells: await read(
      `select 'contacts ' || id as name, (to_jsonb(t) - 'enriched_at')::text as value from crm.contacts t
        union all select 'accounts ' || id, to_jsonb(t)::text from crm.accounts t`,
    ),
  }
}

const different = (found: ReadonlyMap<string, string>, expected: ReadonlyMap<string, string>): string[] =>
  [...new Set([...found.keys(), ...expected.keys()])].filter((name) => found.get(name) !== expected.get(name))

/** Holds what is there against what a run without faults made, and against what the service counted. */
export async function compare(
  pool: pg.Pool,
  sandbox: Sandbox,
  expected: Snapshot,
  slots: number,
): Promise<Damage> {
  const found = await snapshot(pool)
  const { rows } = await pool.query<{ key: string; doubt: number; single: boolean }>(
    'select key, unconfirmed_calls as doubt, sync_only as single from fillrate.lookups where unconfirmed_calls > 0',
  )
  const again = new Map(rows.map((row) => [row.key, row.doubt]))
  const doubtful = rows.filter((row) => !row.single).length
  const paid = Object.entries(sandbox.stats({ inputs: true }).inputs.all ?? {})
  const unexplained = paid.filter(
    ([key, one]) => one.single + one.bulk + one.unanswered > 1 + (again.get(key.replace(/^\w+:/, '')) ?? 0),
  )
  const twice = await changedTwice(pool)
  const postedTwice = paid.filter(([, one]) => one.bulk > 1).length
  return {
    rowsLost: different(found.rows, expected.rows).length,
    recordsLost: different(found.records, expected.records).length,
    paidTwice: unexplained.length,
    cellsWrong: different(found.cells, expected.cells).length + twice,
    otherwise: postedTwice + (doubtful > slots ? 1 : 0),
    inDoubt: rows.reduce((sum, row) => sum + row.doubt, 0),
  }
}

/** Rows whose cells were written more than once. */
async function changedTwice(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    'select count(*)::int as count from (select from fillrate.changes group by source, key having count(*) > 1) twice',
  )
  return rows[0]?.count ?? 0
}

/** Nothing but what is stated. */
export const isUnharmed = (damage: Damage): boolean =>
  damage.rowsLost + damage.recordsLost + damage.paidTwice + damage.cellsWrong + damage.otherwise === 0
