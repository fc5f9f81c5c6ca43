import type { SourceMapping } from '../../domain/mapping.ts'
import type { Table } from '../catalogue.ts'
import { type Db, query } from '../db.ts'
import type { DatabaseError } from '../../util/error-text.ts'
import { listNames } from '../../util/text.ts'
import type { ProblemList } from '../problems.ts'
import { quoteName } from '../quote.ts'
import { findNamedColumns } from '../triggers/columns.ts'

/** SQL: the schemas of the role's search path that Fillrate does not search, because another role may create in them. */
const UNSEARCHED = `
  select name from unnest(nullif(current_setting('fillrate.own_search_path', true), '')::text[]) as name
   where name <> all (current_schemas(false)::text[])`

const listUnsearched = async (db: Db): Promise<readonly string[]> =>
  (await query<{ name: string }>(db, UNSEARCHED)).map(({ name }) => name)

/** What a name lacks that was not found; null for any other error, and where every schema is searched. */
export async function describeUnsearched(db: Db, error: unknown): Promise<string | null> {
  const { code = '', where } = error as Partial<DatabaseError>
  if (!UNDEFINED_NAME.test(code)) return null
  const schemas = await listUnsearched(db)
  if (schemas.length === 0) return null
  const [, name] = /\bfunction "?([\w.$]+)/.exec(where ?? '') ?? []
  return (
    `Fillrate does not search ${listNames(schemas)}, where another role may create operators and functions that would run ` +
    `with its rights: write the schema before the name${name === undefined ? '' : ` in the function ${name}`}, or ${describeRevoke(schemas)}.`
  )
}

/** Matches the code for an undefined table, function, operator or type. */
const UNDEFINED_NAME = /^42(?:P01|883|704)$/

const describeRevoke = (schemas: readonly string[]): string =>
  `take that right away: ${schemas.map((schema) => `revoke create on schema ${quoteName(schema)} from public`).join('; ')}`

const COLUMN = String.raw`\bt\.(?:\w+|"(?:[^"]|"")+")`

/** Matches what means the same without the operators of the column's type: a column alone, its text, IS NULL, an operator with its schema. */
const UNAMBIGUOUS = new RegExp(
  String.raw`^\s*${COLUMN}\s*$|${COLUMN}\s*(?:::\s*text\b|\bis\s+(?:not\s+)?null\b)|(?:${COLUMN}\s*)?\boperator\s*\([^)]*\)\s*(?:${COLUMN})?`,
  'gi',
)

/**
 * Reports expressions over columns whose type has operators of its own in a schema that is not searched, such as citext: without
 * them Postgres would compare such values as text, and say nothing.
 */
export async function checkUnsearchedTypes(
  db: Db,
  table: Table,
  mapping: SourceMapping,
  report: ProblemList,
): Promise<void> {
  const { joins, where, changedAt, inputs, outputs } = mapping
  const texts = [joins, ...where, changedAt, ...Object.values(inputs), ...outputs.map(({ sql }) => sql)]
    .map((text) => text?.replaceAll(UNAMBIGUOUS, ' ') ?? '')
    .filter((text) => text !== '')
  const named = new Set(texts.flatMap((text) => findNamedColumns(text, table)).map(({ name }) => name))
  if (named.size === 0 || report.lacksPrivileges) return
  const found = await query<{ column: string; type: string; schema: string }>(
    db,
    `select distinct a.attname as "column", y.typname as type, n.nspname as schema
       from pg_attribute a
       join pg_type y on y.oid = a.atttypid
       join pg_operator o on o.oprleft = y.oid
       join pg_namespace n on n.oid = o.oprnamespace
       join pg_depend d on d.classid = 'pg_operator'::regclass and d.objid = o.oid and d.deptype = 'e'
      where a.attrelid = $1::regclass and a.attname = any ($2) and n.nspname in (${UNSEARCHED})`,
    [table.sql, [...named]],
  )
  for (const { column, type, schema } of found)
    report.add(
      'table',
      `${column} is of type ${type}, whose operators are in ${schema}: another role may create there, so Fillrate does not search it`,
      'expressions that mean the same in every session',
      `Write t.${quoteName(column)}::text, or operator(${quoteName(schema)}.=); or let no other role create there: revoke create on schema ${quoteName(schema)} from public`,
    )
}
