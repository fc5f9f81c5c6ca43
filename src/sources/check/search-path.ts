import type { SourceMapping } from '../../domain/mapping.ts'
import type { Table } from '../catalogue.ts'
import { type Db, query } from '../db.ts'
import type { DatabaseError } from '../../util/error-text.ts'
import { listNames } from '../../util/text.ts'
import type { ProblemList } from '../problems.ts'
import { findNamedColumns } from '../triggers/columns.ts'

/**
 * The schemas of the role's search path that Fillrate does not search, because another role may create
 * in them; quoted.
 */
function listUnsearched({ rolePath }: Table): readonly string[] {
  const held: readonly string[] = rolePath?.held.match(SCHEMA) ?? []
  return (rolePath?.own.match(SCHEMA) ?? []).filter((schema) => !held.includes(schema))
}

const SCHEMA = /"(?:[^"]|"")*"|[^",\s]+/g

/** What a name lacks that was not found; null for any other error, and where every schema is searched. Pure. */
export function describeUnsearched(table: Table, error: Partial<DatabaseError>): string | null {
  const schemas = listUnsearched(table)
  // An undefined table, function, operator or type.
  if (schemas.length === 0 || !/^42(?:P01|883|704)$/.test(error.code ?? '')) return null
  const [, name] = /\bfunction "?([\w.$]+)/.exec(error.where ?? '') ?? []
  return (
    `Fillrate does not search ${listNames(schemas)}, where another role may create: write the schema before the name` +
    `${name === undefined ? '' : ` in the function ${name}`}, or revoke create on schema ${schemas.join(', ')} from public.`
  )
}

const COLUMN = String.raw`\bt\.(?:\w+|"(?:[^"]|"")+")`

/**
 * Matches what means the same without the operators of the column's type: a column alone, its text, IS
 * NULL, an operator with its schema.
 */
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
  const schemas = listUnsearched(table)
  if (schemas.length === 0 || named.size === 0 || report.lacksPrivileges) return
  const found = await query<{ column: string; type: string; schema: string }>(
    db,
    `select distinct quote_ident(a.attname) as "column", y.typname as type, quote_ident(n.nspname) as schema
       from pg_attribute a
       join pg_type y on y.oid = a.atttypid
       join pg_operator o on o.oprleft = y.oid
       join pg_namespace n on n.oid = o.oprnamespace
       join pg_depend d on d.classid = 'pg_operator'::regclass and d.objid = o.oid and d.deptype = 'e'
      where a.attrelid = $1::regclass and a.attname = any ($2) and quote_ident(n.nspname) = any ($3)`,
    [table.sql, [...named], schemas],
  )
  for (const { column, type, schema } of found)
    report.add(
      'table',
      `${column} is of type ${type}, whose operators are in ${schema}, where another role may create`,
      'expressions that mean the same in every session',
      `Write t.${column}::text, or operator(${schema}.=); or revoke create on schema ${schema} from public.`,
    )
}
