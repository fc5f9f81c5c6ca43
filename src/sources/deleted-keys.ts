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

/** SQL over a relation of keys. */
export interface DeletedKeysSql {
  /** Whether a `key` can be compared by its text. */
  readonly isPlain: RawBuilder<boolean>
  /** Of the relation `known` of `key` and `is_plain`, the keys that no row of the table has, as an array. */
  readonly deleted: RawBuilder<string[]>
}

/** Compares a page of keys without reading them; null for a key that is no single integer or UUID. */
export function deletedKeysSql(source: Source): DeletedKeysSql | null {
  const [column, ...more] = source.keyColumns
  const plain = PLAIN_KEYS[column?.columnType.fit.kind ?? '']
  if (column === undefined || more.length > 0 || plain === undefined) return null
  const searched = `(select array_agg(key::${plain.cast}) filter (where is_plain) from known)::${plain.cast}[]`
  return {
    isPlain: sql.raw(`(${plain.isPlain})`),
    deleted: sql.raw(`array(
      select key from known except
      select ${keyTextSql(source)} from ${source.table.sql} as t
       where t.${quoteName(column.name)} ${column.operators.equal} any(${searched}))`),
  }
}
