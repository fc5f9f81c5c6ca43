import type { Table } from '../catalogue.ts'
import { type Db, query } from '../db.ts'

/** A foreign key of the source's table. */
export interface SourceForeignKey {
  readonly columns: readonly string[]
  /** The other table, as SQL. */
  readonly table: string
  /** Its columns, in the order of `columns`. */
  readonly referenced: readonly string[]
}

/** A CHECK constraint over one column. */
export interface ColumnCheck {
  readonly name: string
  readonly column: string
  /** Its condition, over the column's unqualified name. */
  readonly condition: string
}

/** Reads the foreign keys of a table, and its CHECK constraints over a single column. */
export async function readConstraints(
  db: Db,
  table: Table,
): Promise<{ readonly foreignKeys: readonly SourceForeignKey[]; readonly checks: readonly ColumnCheck[] }> {
  const names = (table: string, numbers: string): string =>
    `array(select a.attname::text from unnest(${numbers}) with ordinality as n(attnum, place)
             join pg_attribute a on a.attrelid = ${table} and a.attnum = n.attnum order by place)`
  const foreignKeys = await query<SourceForeignKey>(
    db,
    `select ${names('k.conrelid', 'k.conkey')} as columns, k.confrelid::regclass::text as "table",
            ${names('k.confrelid', 'k.confkey')} as referenced
       from pg_constraint k join pg_class c on c.oid = k.conrelid join pg_namespace s on s.oid = c.relnamespace
      where s.nspname = $1 and c.relname = $2 and k.contype = 'f' order by cardinality(k.conkey), k.conname`,
    [table.schema, table.name],
  )
  const checks = await query<ColumnCheck>(
    db,
    `select k.conname as name, a.attname as "column", pg_get_expr(k.conbin, k.conrelid) as condition
       from pg_constraint k join pg_attribute a on a.attrelid = k.conrelid and a.attnum = k.conkey[1]
       join pg_class c on c.oid = k.conrelid join pg_namespace s on s.oid = c.relnamespace
      where s.nspname = $1 and c.relname = $2 and k.contype = 'c' and cardinality(k.conkey) = 1 order by k.conname`,
    [table.schema, table.name],
  )
  return { foreignKeys, checks }
}
