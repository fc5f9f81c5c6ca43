import type { SourceMapping } from '../../domain/mapping.ts'
import type { Table } from '../catalogue.ts'
import { tryQuery, isCodedError, quoteLiteral, query, type Db } from '../db.ts'
import { findFault, findJoinFault, listConditions, withCaret, renderExpression } from '../expression.ts'
import { joinsSql } from '../inputs.ts'
import { renderWhere } from '../page.ts'
import { ProblemList, SourceProblems } from '../problems.ts'
import type { MappedOutput, MappedTouch, Source } from '../source-model.ts'
import { listExpressions } from './privileges.ts'
import { maskServerText, type DatabaseError } from '../../util/error-text.ts'
import { listNames } from '../../util/text.ts'
import { findNamedColumns } from '../triggers/columns.ts'

/** Checks the text of every expression: whether it can stand where it will be put. */
export function scanExpressions(mapping: SourceMapping, report: ProblemList): void {
  for (const [place, text] of listExpressions(mapping)) {
    const fault = place === 'joins' ? findJoinFault(text) : findFault(text, listPlaceholders(place))
    if (text !== '' && fault !== null)
      report.add(
        place,
        `${withCaret(text, fault.at)}\n${fault.message}`,
        'an SQL expression',
        'Correct the expression.',
      )
  }
}

function listPlaceholders(place: string): readonly string[] {
  if (place.startsWith('outputs.')) return ['value', 'json', 'confidence']
  return place.startsWith('touch.') ? ['confidence'] : []
}

/**
 * Checks each expression alone in the database. Reads no rows: the statements end with `limit 0`.
 * Where the table or its joins fail already, so would every expression.
 * @param unsafe places to skip
 */
export async function probeExpressions(
  db: Db,
  table: Table,
  mapping: SourceMapping,
  cells: { readonly outputs: readonly MappedOutput[]; readonly touches: readonly MappedTouch[] },
  unsafe: ReadonlySet<string>,
  report: ProblemList,
): Promise<void> {
  const probe = async (expression: ExpressionProbe): Promise<boolean> => {
    if (unsafe.has(expression.place)) return false
    const failure = await probeExpression(db, expression)
    if (failure !== null) addProbeError(failure, table, report)
    return failure === null
  }
  const from = `from ${table.sql} as t ${joinsSql({ mapping })}`
  const place = mapping.joins === null ? 'table' : 'joins'
  const before = `select 1 from ${table.sql} as t `
  if (!(await probe({ place, text: mapping.joins ?? '', before, after: ' limit 0' }))) return
  // Coalesce, because it rejects expressions that return a set of rows.
  const after = `\n)::text, '') ${from} limit 0`
  for (const [name, text] of Object.entries(mapping.inputs))
    await probe({ place: `inputs.${name}`, text, before: 'select coalesce((', after })
  for (const [place, text] of listConditions(mapping)) await probe(toConditionProbe(place, text, from))
  // In place of the record's values and its confidence.
  const batch = `${from} cross join lateral (select '{}'::jsonb as "~v", 1::double precision as "~c" offset 0) as "~b" limit 0`
  for (const output of cells.outputs)
    if (output.mapping.sql !== null) await probe(toOutputProbe(output, output.mapping.sql, batch))
  for (const { column, expression } of cells.touches)
    await probe({
      place: `touch.${column}`,
      text: expression,
      before: 'select case when true then (',
      after: `\n) end ${batch}`,
      references: { confidence: '"~c"' },
    })
}

const toConditionProbe = (place: string, text: string, from: string): ExpressionProbe => ({
  place,
  text,
  before: `select 1 ${from} where (`,
  after: '\n) limit 0',
})

const toOutputProbe = (
  { column, type, fit }: MappedOutput,
  text: string,
  batch: string,
): ExpressionProbe => ({
  place: `outputs.${column}.sql`,
  text,
  before: 'select case when true then (',
  after: `\n)${fit.kind.startsWith('json') ? '' : `::${type.cast}`} end ${batch}`,
  references: {
    value: `("~v" ->> ${quoteLiteral(column)})`,
    json: `("~v" -> ${quoteLiteral(column)})`,
    confidence: '"~c"',
  },
})

/**
 * Checks a condition that was given with `--where`, before a run starts.
 * @throws SourceProblems with a caret at the error
 */
export async function checkWhere(db: Db, source: Source, where: string): Promise<void> {
  renderWhere(source, where)
  const from = `from ${source.table.sql} as t ${joinsSql(source)}`
  const failure = await probeExpression(db, toConditionProbe('--where', where, from))
  if (failure === null) return
  const report = new ProblemList(source.name)
  addProbeError(failure, source.table, report)
  throw new SourceProblems(report.problems)
}

/** One expression of a mapping, and the statement that checks it in the database. */
interface ExpressionProbe {
  readonly place: string
  readonly text: string
  readonly before: string
  readonly after: string
  readonly references?: Readonly<Record<string, string>>
}

type ServerError = DatabaseError & { readonly hint?: string }

/** The database's error for a probe. */
interface ProbeFailure {
  readonly probe: ExpressionProbe
  readonly error: ServerError
  /** Index in the configured text. */
  readonly index: number | null
}

/** Checks one expression in the database; null: it is valid. */
async function probeExpression(db: Db, probe: ExpressionProbe): Promise<ProbeFailure | null> {
  const rendered = renderExpression(probe.text, probe.references)
  const statement = probe.before + rendered.sql + probe.after
  const tried = await tryQuery(db, statement)
  if (tried === null) return null
  const error = tried as ServerError
  if (!isCodedError(error)) throw error
  const index = error.position === undefined ? -1 : characters(statement, Number(error.position) - 1)
  const inside = index - probe.before.length
  const isInside = inside >= 0 && inside < rendered.sql.length
  return { probe, error, index: isInside ? rendered.origin(inside) : null }
}

/** Postgres counts characters, JavaScript UTF-16 units. */
const characters = (text: string, count: number): number => [...text].slice(0, count).join('').length

/** Reports the error, with a caret where the database found it. Throws errors that do not concern the expression. */
function addProbeError({ probe, error, index }: ProbeFailure, table: Table, report: ProblemList): void {
  if (/^(?:08|53|57|58|XX)/.test(error.code)) throw error
  // Known already, with the grant.
  if (error.code === '42501' && report.lacksPrivileges) return
  const shown = index === null ? probe.text : withCaret(probe.text, index)
  const found = [shown, maskServerText(error)].filter((line) => line !== '').join('\n')
  report.add(probe.place, found, 'SQL over t and the joins that Postgres accepts', describeFix(table, error))
}

/** What to do about an error of Postgres: what it says itself, or where the name is that it has not found. Pure. */
export const describeFix = (
  table: Table,
  error: ServerError,
  otherwise = 'Correct the expression.',
): string =>
  describeUnsearched(table, error) ??
  error.hint ??
  (error.code === '42501' ? 'Let the role in DATABASE_URL do what the message names.' : otherwise)

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
  const { joins, where, inputs, outputs } = mapping
  const texts = [joins, ...where, ...Object.values(inputs), ...outputs.map(({ sql }) => sql)]
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
