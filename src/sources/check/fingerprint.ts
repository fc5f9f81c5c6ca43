import { type Db, query } from '../db.ts'
import { quoteName } from '../quote.ts'
import type { Source } from '../source-model.ts'
import { listExpressions } from './privileges.ts'
import { listReferences } from './references.ts'

/**
 * Which versions the catalogue holds of what each source reads: its tables, columns, keys, policies and privileges. One statement
 * for all sources, so that a change is noticed within seconds even where no row of a source is read.
 * @returns by name; a text that changes with any of that, and with no row of a table
 */
export async function readFingerprints(
  db: Db,
  sources: readonly Source[],
): Promise<ReadonlyMap<string, string>> {
  const uses = sources.flatMap(({ name, table, mapping }) =>
    [...new Set([table.sql, ...listTables(listExpressions(mapping))])].map((sql) => ({ source: name, sql })),
  )
  const rows = await query<{ source: string; print: string }>(
    db,
    `select u.source, md5(string_agg(concat_ws(' ', u.sql, c.oid, c.xmin, n.xmin, has_schema_privilege(n.oid, 'usage'),
              has_any_column_privilege(c.oid, 'select'), has_any_column_privilege(c.oid, 'update'), row_security_active(c.oid),
              (select string_agg(concat_ws(' ', id, version), ',' order by id, version::text) from (
                 select attnum::oid, xmin from pg_attribute where attrelid = c.oid and attnum > 0 union all
                 select indexrelid, xmin from pg_index where indrelid = c.oid and indisunique union all
                 select oid, xmin from pg_policy where polrelid = c.oid) as parts (id, version))),
            ' | ' order by u.sql)) as print
       from jsonb_to_recordset($1::jsonb) as u(source text, sql text)
       left join pg_class c on c.oid = to_regclass(u.sql)
       left join pg_namespace n on n.oid = c.relnamespace
      group by u.source`,
    [JSON.stringify(uses)],
  )
  return new Map(rows.map(({ source, print }) => [source, print]))
}

const listTables = (expressions: readonly (readonly [place: string, text: string])[]): string[] =>
  expressions.flatMap(([, text]) =>
    listReferences(text)
      .filter(({ kind }) => kind === 'table')
      .map(({ schema, name }) => [...(schema === null ? [] : [schema]), name].map(quoteName).join('.')),
  )
