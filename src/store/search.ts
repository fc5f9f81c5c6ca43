import { sql } from 'kysely'
import type { StoreTransaction } from './transaction.ts'

/** A column of Fillrate's own tables that can hold words. */
export interface Column {
  readonly table: string
  readonly column: string
  readonly type: string
  /** Part of a key or a reference, so that its words can't be put out of it. */
  readonly isKey: boolean
}

/** Every column of text, JSON or bytes in the schema `fillrate`, out of the catalogue: also those of later versions. */
export async function columns(tx: StoreTransaction): Promise<Column[]> {
  const { rows } = await sql<Column>`
    select c.relname as table, a.attname as column, t.typname as type,
           exists (select from pg_index i where i.indrelid = c.oid and i.indisunique and a.attnum = any(i.indkey)) as "isKey"
      from pg_attribute a
      join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p')
      join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'fillrate'
      join pg_type t on t.oid = a.atttypid
     where a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
       and t.typname in ('text', 'varchar', 'json', 'jsonb', 'bytea', '_text', '_varchar', '_jsonb')
     order by 1, 2`.execute(tx)
  return rows
}

const textOf = ({ column, type }: Column) =>
  type === 'bytea' ? sql`encode(${sql.ref(column)}, 'escape')` : sql`${sql.ref(column)}::text`

/** In how many rows a pattern is found in a column. */
export async function count(tx: StoreTransaction, column: Column, pattern: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from ${sql.table(`fillrate.${column.table}`)}
     where ${textOf(column)} ~* ${pattern}`.execute(tx)
  return rows[0]?.count ?? 0
}

/** Where a pattern is found in a column that can be blotted. Locks nothing. */
export async function find(tx: StoreTransaction, column: Column, pattern: string): Promise<string[]> {
  if (column.isKey || !BLOTTED.has(column.type)) return []
  const { rows } = await sql<{ place: string }>`
    select ctid::text as place from ${sql.table(`fillrate.${column.table}`)}
     where ${sql.ref(column.column)}::text ~* ${pattern}`.execute(tx)
  return rows.map((row) => row.place)
}

/**
 * Puts `[erased]` in the place of what a pattern finds in a column of text or JSON.
 * @param places as `find` gives them
 * @returns in how many rows
 */
export async function blot(
  tx: StoreTransaction,
  column: Column,
  pattern: string,
  places: readonly string[],
): Promise<number> {
  if (places.length === 0) return 0
  const name = sql.ref(column.column)
  const result = await sql`
    update ${sql.table(`fillrate.${column.table}`)}
       set ${name} = regexp_replace(${name}::text, ${pattern}, '[erased]', 'gi')::${sql.raw(column.type)}
     where ctid = any(${[...places]}::tid[]) and ${name}::text ~* ${pattern}`.execute(tx)
  return Number(result.numAffectedRows ?? 0)
}

const BLOTTED = new Set(['text', 'varchar', 'json', 'jsonb'])
