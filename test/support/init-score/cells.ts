import type pg from 'pg'

/** A table of the user, with an expression that identifies its rows; null without a primary key and a unique index. */
interface UserTable {
  readonly name: string
  readonly key: string | null
  /** Whether a trigger of its own may stamp a row with each update. */
  readonly isStamped: boolean
}

/** One cell before and after a run: a column, or a key inside a jsonb column. */
export interface ChangedCell {
  readonly table: string
  readonly row: string
  readonly column: string
  readonly before: unknown
  readonly after: unknown
}

type TableRows = ReadonlyMap<string, Readonly<Record<string, unknown>>>

/** The user's tables: rows by key, and a checksum of the bytes of all rows. */
export interface Snapshot {
  readonly rows: ReadonlyMap<string, TableRows>
  readonly checksums: Readonly<Record<string, string | null>>
}

/** An expression over `t` that identifies the rows of a table. */
const rowKey = (columns: readonly string[]): string =>
  `concat_ws('|', ${columns.map((column) => `t."${column}"`).join(', ')})`

/** The tables outside of Fillrate's own schema. */
export async function listUserTables(pool: pg.Pool): Promise<UserTable[]> {
  const { rows } = await pool.query<{ name: string; key: string[] | null; isStamped: boolean }>(
    `select format('%I.%I', n.nspname, c.relname) as name,
            (select array_agg(a.attname::text order by a.attnum) from pg_index i
               join pg_attribute a on a.attrelid = c.oid and a.attnum = any (i.indkey)
              where i.indexrelid = (select u.indexrelid from pg_index u
                where u.indrelid = c.oid and u.indisunique and u.indpred is null and u.indexprs is null
                order by not u.indisprimary, u.indexrelid limit 1)) as key,
            exists (select from pg_trigger g where g.tgrelid = c.oid and not g.tgisinternal and g.tgtype & 18 = 18) as "isStamped"
       from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind = 'r' and n.nspname not in ('fillrate', 'information_schema') and n.nspname not like 'pg\\_%'
      order by 1`,
  )
  return rows.map(({ name, key, isStamped }) => ({ name, key: key && rowKey(key), isStamped }))
}

export async function takeSnapshot(pool: pg.Pool): Promise<Snapshot> {
  const rows = new Map<string, TableRows>()
  const checksums: Record<string, string | null> = {}
  for (const { name, key, isStamped } of await listUserTables(pool)) {
    const bytes = isStamped ? "(to_jsonb(t) - 'updated_at')" : 't'
    const sum = await pool.query<{ sum: string | null }>(
      `select md5(string_agg(md5(${bytes}::text), '' order by md5(${bytes}::text))) as sum from ${name} t`,
    )
    checksums[name] = sum.rows[0]?.sum ?? null
    if (key === null) continue
    const read = await pool.query<{ key: string; row: Record<string, unknown> }>(
      `select ${key} as key, to_jsonb(t) as row from ${name} t`,
    )
    rows.set(name, new Map(read.rows.map((one) => [one.key, one.row])))
  }
  return { rows, checksums }
}

export function compareSnapshots(before: Snapshot, after: Snapshot): ChangedCell[] {
  return [...before.rows].flatMap(([table, rows]) =>
    [...rows].flatMap(([row, old]) =>
      changedKeys(old, after.rows.get(table)?.get(row) ?? {}).map((cell) => ({ table, row, ...cell })),
    ),
  )
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function changedKeys(
  old: Record<string, unknown>,
  now: Record<string, unknown>,
): Array<Pick<ChangedCell, 'column' | 'before' | 'after'>> {
  return [...new Set([...Object.keys(old), ...Object.keys(now)])].flatMap((column) => {
    const [before, after] = [old[column], now[column]]
    if (JSON.stringify(before) === JSON.stringify(after)) return []
    if (isObject(after) && (isObject(before) || before == null))
      return changedKeys(isObject(before) ? before : {}, after).map((inner) => ({
        ...inner,
        column: `${column}.${inner.column}`,
      }))
    return [{ column, before, after }]
  })
}
