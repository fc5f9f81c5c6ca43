import type { DatabaseError } from '../util/error-text.ts'
import { type Db, query } from './db.ts'
import type { MappedCell, Source } from './source-model.ts'

/** A constraint, a unique index or a domain that a write to the source's table can break. */
export interface TableConstraint {
  /** What an error names: a constraint by its name, a domain by its type. */
  readonly names: 'constraint' | 'type'
  readonly name: string
  /** Columns of the source's table. */
  readonly columns: readonly string[]
  /** Of a foreign key: the other table, as SQL, and its columns in the order of `columns`. */
  readonly target: { readonly table: string; readonly columns: readonly string[] } | null
}

/**
 * The constraints of the source's table, of its partitions and of the tables that inherit from it, with the columns of
 * each. A unique index may have expressions and a condition: it depends on their columns. Found by name, for which a role needs no
 * privilege.
 */
export const readTableConstraints = (
  db: Db,
  { table }: Pick<Source, 'table'>,
): Promise<readonly TableConstraint[]> =>
  query(
    db,
    `
    with recursive own as (
      select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = $2
    ), tables as (
      select oid from own union all select h.inhrelid from pg_inherits h join tables on tables.oid = h.inhparent
    )
    select 'constraint' as names, k.conname::text as name, ${columnNames('k.conrelid', 'k.conkey')} as columns,
           case when k.contype = 'f' then jsonb_build_object(
             'table', k.confrelid::regclass::text, 'columns', ${columnNames('k.confrelid', 'k.confkey')}) end as target
      from pg_constraint k join tables on tables.oid = k.conrelid
     where k.contype <> 't' and k.conkey is not null
     union all
    select 'constraint', k.conname::text, ${columnNames('k.confrelid', 'k.confkey')}, null
      from pg_constraint k join tables on tables.oid = k.confrelid
     union all
    select 'constraint', c.relname::text, array(
             select distinct a.attname::text from pg_attribute a
              where a.attrelid = i.indrelid
                and (a.attnum = any(i.indkey::int2[]) and a.attnum > 0
                     or exists (select from pg_depend d
                                 where d.classid = 'pg_class'::regclass and d.objid = i.indexrelid
                                   and d.refclassid = 'pg_class'::regclass and d.refobjid = a.attrelid and d.refobjsubid = a.attnum))),
           null
      from pg_index i join tables on tables.oid = i.indrelid join pg_class c on c.oid = i.indexrelid
     where (i.indisunique or i.indisexclusion)
     union all
    select 'type', y.typname::text, array_agg(a.attname::text), null
      from pg_attribute a join pg_type y on y.oid = a.atttypid
     where a.attrelid = (select oid from own) and a.attnum > 0 and y.typtype = 'd' group by y.typname`,
    [table.schema, table.name],
  )

const columnNames = (table: string, numbers: string): string =>
  `array(select a.attname::text from unnest(${numbers}) with ordinality as n(attnum, place)
           join pg_attribute a on a.attrelid = ${table} and a.attnum = n.attnum order by n.place)`

/** For what an error may name, the units that it may mean: those with a cell in one of its columns. */
export function listSuspects(
  cells: readonly MappedCell[],
  units: ReadonlyArray<{ readonly columns: readonly string[] }>,
  constraints: readonly TableConstraint[],
): Record<string, number[]> {
  const suspects: Record<string, number[]> = {}
  const add = (name: string, columns: readonly string[]): void => {
    const numbers = units.flatMap((unit, number) =>
      cells.some((cell) => columns.includes(cell.attribute) && unit.columns.includes(cell.column))
        ? [number]
        : [],
    )
    if (numbers.length > 0) suspects[name] = [...new Set([...(suspects[name] ?? []), ...numbers])]
  }
  for (const { attribute } of cells) add(`column ${attribute}`, [attribute])
  for (const { names, name, columns } of constraints) add(`${names} ${name}`, columns)
  return suspects
}

/** The constraint that an error names. */
export const findConstraint = (
  error: DatabaseError,
  constraints: readonly TableConstraint[],
): TableConstraint | null =>
  constraints.find(({ names, name }) => names === 'constraint' && name === error.constraint) ??
  constraints.find(({ names, name }) => names === 'type' && name === error.type) ??
  null
