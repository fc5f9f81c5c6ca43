import { type RawBuilder, sql } from 'kysely'
import { type Db, query } from './db.ts'
import { keyMatchesSql, keyTextSql } from './key.ts'
import { filterCastableKeys } from './page.ts'
import { quoteName } from './quote.ts'
import type { Source } from './source-model.ts'

/**
 * Those keys that no row of the source's table has, whatever `where` and `joins` say: a row that has left the source is
 * still there. A key that cannot be one of the table, because the type has changed, is no row's.
 *
 * One index probe for each key: `offset 0` keeps the planner from reading the whole table for a page of keys.
 * @param tx a transaction; it is not aborted
 */
export async function findDeletedKeys(tx: Db, source: Source, keys: readonly string[]): Promise<string[]> {
  if (keys.length === 0) return []
  const castable = await filterCastableKeys(tx, source, keys)
  const present = new Set(
    (
      await query<{ key: string }>(
        tx,
        `select "~given"."~key" as key from unnest($1::text[]) as "~given"("~key")
          where exists (select from ${source.table.sql} as t
                         where ${keyMatchesSql(source, '"~given"."~key"')} offset 0)`,
        [castable],
      )
    ).map((row) => row.key),
  )
  return keys.filter((key) => !present.has(key))
}

/** Keys whose values are equal only if their texts are, so that texts can be compared in the database. */
const PLAIN_KEYS: Readonly<Record<string, { readonly isPlain: string; readonly cast: string }>> = {
  // A pattern would take most of the comparison's time.
  integer: {
    isPlain: `length(key) between 1 and 18 and translate(key, '0123456789', '') = '' and key not like '0_%'`,
    cast: 'bigint',
  },
  uuid: { isPlain: `key ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'`, cast: 'uuid' },
}

/** SQL over keys that are compared in the database. */
interface DeletedKeysSql {
  /** Whether a `key` can be compared by its text. */
  readonly isPlain: RawBuilder<boolean>
  /** Of the array `keys` in the one row of the relation `known`, those that no row of the table has, as an array. */
  readonly deleted: RawBuilder<string[]>
}

/**
 * Compares a page of keys without reading them; null for a key that is no single integer or UUID. They are counted first:
 * mostly the table has all of them, and to compare their texts too takes twice the time. Distinct ones, because a table that
 * others inherit from may have two rows of a key, which would stand for one that is gone.
 */
export function deletedKeysSql(source: Source): DeletedKeysSql | null {
  const [column, ...more] = source.keyColumns
  const plain = PLAIN_KEYS[column?.columnType.fit.kind ?? '']
  if (column === undefined || more.length > 0 || plain === undefined) return null
  const name = `t.${quoteName(column.name)}`
  const searched = `(select case when is_plain then keys end from known)::${plain.cast}[]`
  const present = `from ${source.table.sql} as t where ${name} ${column.operators.equal} any(${searched})`
  return {
    isPlain: sql.raw(`(${plain.isPlain})`),
    deleted: sql.raw(`case
      when (select count(distinct ${name}) ${present}) = (select cardinality(keys) from known) then '{}'
      else array(select unnest(keys) from known except select ${keyTextSql(source)} ${present}) end`),
  }
}
