import type { SourceMapping } from '../../domain/mapping.ts'
import type { Table } from '../catalogue.ts'
import { type Db, queryValue } from '../db.ts'
import { findFault, findJoinFault, listConditions, renderExpression, withCaret } from '../expression.ts'
import { joinsSql, MAPPING_INPUTS } from '../inputs.ts'
import { renderWhere } from '../page.ts'
import { ProblemList, SourceProblems } from '../problems.ts'
import { quoteLiteral } from '../quote.ts'
import type { MappedOutput, MappedTouch, Source, TimeType } from '../source-model.ts'
import { listExpressions } from './privileges.ts'
import { addProbeError, type ExpressionProbe, probeExpression, type ProbeFailure } from './probe.ts'

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
 * @param unsafe places to skip
 * @returns false if the table or its joins fail already, and with them every expression
 */
export async function probeExpressions(
  db: Db,
  table: Table,
  mapping: SourceMapping,
  unsafe: ReadonlySet<string>,
  report: ProblemList,
): Promise<boolean> {
  const from = `from ${table.sql} as t ${joinsSql({ mapping })}`
  const rows = await probeExpression(db, {
    place: mapping.joins === null ? 'table' : 'joins',
    text: mapping.joins ?? '',
    expected: mapping.joins === null ? 'a table that this role may read' : 'joins to the table, named t',
    before: `select 1 from ${table.sql} as t `,
    after: ' limit 0',
  })
  if (rows) {
    addProbeError(rows, report)
    return false
  }
  const probes: ExpressionProbe[] = []
  const add = (
    place: string,
    text: string | null | undefined,
    expected: string,
    before: string,
    after: string,
  ) => {
    if (text != null) probes.push({ place, text, expected, before, after })
  }
  const expected = 'an expression over t and the joins, one value a row'
  // Coalesce, because it rejects expressions that return a set of rows.
  for (const name of MAPPING_INPUTS)
    add(
      `inputs.${name}`,
      mapping.inputs[name],
      expected,
      'select coalesce((',
      `\n)::text, '') ${from} limit 0`,
    )
  const condition = `select 1 ${from} where (`
  for (const [place, text] of listConditions(mapping))
    add(place, text, 'a condition over t and the joins', condition, '\n) limit 0')
  add('changedAt', mapping.changedAt, 'a time', condition, '\n) is null limit 0')
  add('freshness.read', mapping.freshness?.read, 'a time', condition, '\n) is null limit 0')
  for (const one of probes) {
    const failed = unsafe.has(one.place) ? null : await probeExpression(db, one)
    if (failed) addProbeError(failed, report)
  }
  return true
}

const TIME_TYPES: Readonly<Record<string, TimeType>> = {
  'timestamp with time zone': 'timestamptz',
  'timestamp without time zone': 'timestamp',
  date: 'date',
}

/** Resolves the type of an expression for a time, which decides how it is compared. Anything but a time is reported. */
export async function resolveTimeType(
  db: Db,
  table: Table,
  mapping: SourceMapping,
  { place, text }: { readonly place: 'changedAt' | 'freshness.read'; readonly text: string | null },
  report: ProblemList,
): Promise<TimeType | null> {
  if (text === null || report.problems.some((problem) => problem.place === place)) return null
  // The type is known without a row: a left join to nothing gives a null of it. A domain counts as its base type.
  const type = await queryValue<string>(
    db,
    `select (case when y.typtype = 'd' then y.typbasetype else y.oid end)::regtype::text
       from (select 1) as one
       left join (select (${renderExpression(text).sql}\n) as at from ${table.sql} as t ${joinsSql({ mapping })} limit 0) as x on true
       join pg_catalog.pg_type y on y.oid = pg_catalog.pg_typeof(x.at)`,
  )
  const found = type ?? 'unknown'
  if (TIME_TYPES[found] !== undefined) return TIME_TYPES[found]
  report.add(
    place,
    `${text}, which is of type ${found}`,
    'a time: timestamptz, timestamp or date',
    'Convert it, for instance to_timestamp(t.changed_seconds), with an index on that expression.',
  )
  return null
}

/** Checks the expressions of outputs and touched columns; finds out for each output what type its `$value` must have. */
export async function probeCells(
  db: Db,
  table: Table,
  mapping: SourceMapping,
  outputs: readonly MappedOutput[],
  touches: readonly MappedTouch[],
  unsafe: ReadonlySet<string>,
  report: ProblemList,
): Promise<MappedOutput[]> {
  const tail =
    `from ${table.sql} as t ${joinsSql({ mapping })} cross join lateral ` +
    `(select '{}'::jsonb as "~v", 1::double precision as "~c" offset 0) as "~b" limit 0`
  const checked: MappedOutput[] = []
  for (const output of outputs) {
    const { sql, column } = output.mapping
    if (sql === null || unsafe.has(`outputs.${column}.sql`)) {
      checked.push(output)
      continue
    }
    const probeValue = (value: string): Promise<ProbeFailure | null> =>
      probeExpression(db, {
        place: `outputs.${column}.sql`,
        text: sql,
        expected: `an expression that gives ${output.path.length > 0 ? 'a value for json' : output.type.name}`,
        before: 'select case when true then (',
        after: `\n)${output.fit.kind.startsWith('json') ? '' : `::${output.type.cast}`} end ${tail}`,
        references: { value, json: `("~v" -> ${quoteLiteral(column)})`, confidence: '"~c"' },
      })
    const asText = `("~v" ->> ${quoteLiteral(column)})`
    const failed = await probeValue(asText)
    const asNumber = failed ? await probeValue(`(${asText}::numeric)`) : null
    if (failed && asNumber) addProbeError(failed, report)
    checked.push(failed && !asNumber ? { ...output, valueType: 'number' } : output)
  }
  for (const touch of touches) {
    if (unsafe.has(`touch.${touch.column}`)) continue
    const failed = await probeExpression(db, {
      place: `touch.${touch.column}`,
      text: touch.expression,
      expected: `an expression that gives ${touch.type.name}`,
      before: 'select case when true then (',
      after: `\n) end ${tail}`,
      references: { confidence: '"~c"' },
    })
    if (failed) addProbeError(failed, report)
  }
  return checked
}

/**
 * Checks a condition that was given with `--where`, before a run starts.
 * @throws SourceProblems with a caret at the error
 */
export async function checkWhere(db: Db, source: Source, where: string): Promise<void> {
  renderWhere(source, where)
  const report = new ProblemList(source.name)
  const failed = await probeExpression(db, {
    place: '--where',
    text: where,
    expected: 'a condition over t and the joins',
    before: `select 1 from ${source.table.sql} as t ${joinsSql(source)} where (`,
    after: '\n) limit 0',
  })
  if (failed) addProbeError(failed, report)
  if (report.problems.length > 0) throw new SourceProblems(report.problems)
}
