import { sql } from 'kysely'
import type { InputName } from '../domain/mapping.ts'
import type { Db } from './db.ts'
import { inputSql, joinsSql } from './inputs.ts'
import { keyTextSql } from './key.ts'
import type { Source } from './source-model.ts'

/**
 * Keys of the rows whose input has a value, as their table holds it now, whether or not Fillrate has a record of it. Reads the whole
 * table.
 * @param pattern a regular expression that finds the candidates
 * @param isValue decides about a candidate's text
 */
export async function findKeysByInput(
  db: Db,
  source: Source,
  input: InputName,
  pattern: string,
  isValue: (text: string) => boolean,
): Promise<string[]> {
  if (source.mapping.inputs[input] === undefined) return []
  const { rows } = await sql<{ key: string; value: string }>`
    select * from (
      select ${sql.raw(keyTextSql(source))} as key, (${sql.raw(inputSql(source, input))})::text as value
        from ${sql.raw(source.table.sql)} as t ${sql.raw(joinsSql(source))}) as one
     where value collate "default" ~* ${pattern} and key is not null`.execute(db)
  return [...new Set(rows.filter(({ value }) => isValue(value)).map(({ key }) => key))]
}
