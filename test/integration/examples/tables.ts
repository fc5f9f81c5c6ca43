import type pg from 'pg'

export type Json = null | boolean | number | string | Json[] | { readonly [key: string]: Json }
type Row = Readonly<Record<string, Json>>

/** Every row of every table of the example, by table and primary key. */
export type Tables = ReadonlyMap<string, ReadonlyMap<string, Row>>

interface Change {
  /** `crm.contacts`, without quotes. */
  readonly table: string
  /** As Fillrate writes it: of several columns, a JSON array. */
  readonly key: string
  /** `title`, or `attributes.work.seniority`. */
  readonly cell: string
  readonly before: Json | undefined
  readonly after: Json | undefined
}

/** All tables except those of Fillrate and of the test. */
async function listTables(pool: pg.Pool): Promise<{ name: string; sql: string; key: string[] }[]> {
  const { rows } = await pool.query<{ name: string; sql: string; key: string[] }>(`
    select case when n.nspname = 'public' then '' else n.nspname || '.' end || c.relname as name,
           c.oid::regclass::text as sql,
           array(select a.attname::text from unnest(i.indkey::int2[]) with ordinality k (attnum, place)
                   join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum order by place) as key
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      join pg_index i on i.indrelid = c.oid and i.indisprimary
     where c.relkind = 'r' and n.nspname !~ '^pg_' and n.nspname not in ('information_schema', 'fillrate', 'expected')`)
  return rows
}

/** A checksum of each table, over all of its bytes. */
export async function checksums(pool: pg.Pool): Promise<Record<string, string>> {
  const sums = (await listTables(pool)).map(async ({ name, sql }) => {
    const { rows } = await pool.query<{ sum: string }>(
      `select md5(string_agg(t::text, chr(10) order by t::text)) as sum from ${sql} t`,
    )
    return [name, rows[0]?.sum ?? ''] as const
  })
  return Object.fromEntries(await Promise.all(sums))
}

/** Reads all tables. */
export async function readTables(pool: pg.Pool): Promise<Tables> {
  const read = new Map<string, ReadonlyMap<string, Row>>()
  for (const { name, sql, key } of await listTables(pool)) {
    const { rows } = await pool.query<{ row: Row }>(`select to_jsonb(t) as row from ${sql} t`)
    const keyed = rows.map(({ row }) => {
      const parts = key.map((column) => String(row[column]))
      return [parts.length === 1 ? (parts[0] ?? '') : JSON.stringify(parts), row] as const
    })
    read.set(name, new Map(keyed))
  }
  return read
}

/** Every cell that has changed. The set of rows must be the same. */
export function changesBetween(before: Tables, after: Tables): Change[] {
  return [...before].flatMap(([table, rows]) => {
    const now = after.get(table)
    if (now?.size !== rows.size) throw new Error(`rows of ${table} came or went`)
    return [...rows].flatMap(([key, row]) => {
      const [old, young] = [leaves(row), leaves(now.get(key) ?? {})]
      const cells = [...new Set([...old.keys(), ...young.keys()])].filter(
        (cell) => JSON.stringify(old.get(cell)) !== JSON.stringify(young.get(cell)),
      )
      // A created parent replaces what stood in its place (JSON null or an empty object): not a change of its own.
      const made = cells.filter(
        (cell) => young.has(cell) || !cells.some((other) => other.startsWith(`${cell}.`)),
      )
      return made.map((cell) => ({ table, key, cell, before: old.get(cell), after: young.get(cell) }))
    })
  })
}

function leaves(value: Json, path = ''): Map<string, Json> {
  const isParent =
    typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0
  if (!isParent) return new Map([[path, value]])
  return new Map(
    Object.entries(value).flatMap(([key, inner]) => [...leaves(inner, path === '' ? key : `${path}.${key}`)]),
  )
}

/** The value at a path of a row or a record; undefined where there is none. */
export function valueAt(value: Json | undefined, path: string): Json | undefined {
  return path
    .split('.')
    .reduce<Json | undefined>(
      (at, key) =>
        typeof at === 'object' && at !== null && !Array.isArray(at) && Object.hasOwn(at, key)
          ? at[key]
          : undefined,
      value,
    )
}
