import { sql } from 'kysely'
import { listNames } from '../util/text.ts'
import { listReferences } from './check/references.ts'
import { type Db, query, queryValue } from './db.ts'
import { listConditions } from './expression.ts'
import { belongsSql, eligibleSql, joinsSql } from './inputs.ts'
import { hasKeySql } from './key.ts'
import { pageQuery } from './page.ts'
import type { SourceFinding, SourceProblem } from './problems.ts'
import { quoteLiteral } from './quote.ts'
import { findProtectedSample, mayHideRows } from './row-security.ts'
import type { Source } from './source-model.ts'

/** Above this, reading the whole table page after page is worth a warning. */
const LARGE_TABLE_ROWS = 50_000

/**
 * Checks an open source's data and plans for problems that do not stop a run but that its owner should know. Reads one
 * row.
 */
export async function describeSource(db: Db, source: Source): Promise<SourceProblem[]> {
  const findings: readonly (SourceFinding | null)[] = [
    await describeRows(db, source),
    ...describeTouchedInWhere(source),
    await describeMissingKeys(db, source),
    await describeChangedPlan(db, source),
  ]
  return findings.flatMap((finding) => (finding === null ? [] : [{ ...finding, source: source.name }]))
}

/** Conditions on touched columns, which each write sets: a row leaves the source when it is written. */
function describeTouchedInWhere({ mapping, touches }: Source): SourceFinding[] {
  return listConditions(mapping).flatMap(([place, where]) => {
    const names = new Set(
      listReferences(where).flatMap(({ kind, name }) => (kind === 'column' ? [name] : [])),
    )
    const touched = touches.filter(({ attribute, path }) => path.length === 0 && names.has(attribute))
    if (touched.length === 0) return []
    return [
      {
        place,
        found: `${where}\na condition on ${listNames(touched.map(({ column }) => column))}, which each write sets: a row leaves the source`,
        expected: 'a condition on columns that Fillrate does not write',
        todo: 'Leave that out: a row without blanks is not picked. To keep rows by a time: freshness: { column: … }.',
      },
    ]
  })
}

async function describeRows(db: Db, source: Source): Promise<SourceFinding | null> {
  const { mapping, table } = source
  const rows = await query(
    db,
    `select from ${table.sql} as t ${joinsSql(source)} where ${eligibleSql(source)} limit 1`,
  )
  const found = rows.length === 0 ? null : await findProtectedSample(db, source)
  if (found !== null)
    return {
      place: 'table',
      found,
      expected: 'policies that let the role update the rows that it reads',
      todo: 'Permit it, or leave these rows out with `where`: what is found for them is paid for and cannot be written.',
    }
  if (rows.length > 0) return null
  if (await mayHideRows(db, source))
    return {
      place: 'table',
      found: 'no row of the source that this role may read: row-level security may hide them',
      expected: 'policies that let the role read the rows',
      todo: `Create policies for the role, for SELECT and for UPDATE; those of the table: select * from pg_policies where tablename = ${quoteLiteral(table.name)}`,
    }
  if (mapping.where.length === 0) return null
  return {
    place: 'where',
    found: `${mapping.where.join('\n')}\n${mapping.where.length === 1 ? 'a condition' : 'conditions'} that no row meets`,
    expected: 'conditions that some rows meet',
    todo: '`fillrate plan` shows how many rows each condition leaves out. Or the table has no rows.',
  }
}

/** Rows without a key; `plan` counts them. */
async function describeMissingKeys(db: Db, source: Source): Promise<SourceFinding | null> {
  const nullable = source.keyColumns.filter((column) => !column.notNull).map((column) => column.name)
  const keyless = `select from ${source.table.sql} as t ${joinsSql(source)}
     where ${belongsSql(source)} and not (${hasKeySql(source)}) limit 1`
  if (nullable.length === 0 || (await query(db, keyless)).length === 0) return null
  return {
    place: 'key',
    found: `rows with NULL in ${listNames(nullable)}: never looked up or written`,
    expected: 'a key that every row has',
    todo: 'Name another unique column as the key, or fill this one. Leave the rows out with `where` if they are not wanted.',
  }
}

/** Whether each pass by `changedAt` reads the whole table; a table that is small is read at once. */
async function describeChangedPlan(db: Db, source: Source): Promise<SourceFinding | null> {
  const { table, mapping } = source
  const { changedAt } = mapping
  const size = `select reltuples::float8 from pg_class where oid = $1::regclass`
  const isLarge = ((await queryValue<number>(db, size, [table.sql])) ?? 0) >= LARGE_TABLE_ROWS
  if (changedAt === null || !isLarge) return null
  // A time far ahead, because the planner must see that few rows match.
  const page = { after: null, limit: 1000, where: null, changedSince: new Date('9999-01-01') }
  const { rows } = await sql<{ 'QUERY PLAN': ReadonlyArray<{ readonly Plan: Plan }> }>`
    explain (format json) ${pageQuery(source, page)}`.execute(db)
  const plan = rows[0]?.['QUERY PLAN'][0]?.Plan
  if (plan === undefined || !scansWholeTable(table.name, plan)) return null
  return {
    place: 'changedAt',
    found: `${changedAt}, which no index serves: each pass reads the whole table`,
    expected: 'an index on it, so that a pass costs what has changed',
    todo: `create index concurrently on ${table.sql} (${indexExpression(changedAt)})`,
  }
}

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly Plans?: readonly Plan[]
}

const scansWholeTable = (table: string, plan: Plan): boolean =>
  (plan['Node Type'] === 'Seq Scan' && plan['Relation Name'] === table) ||
  (plan.Plans ?? []).some((inner) => scansWholeTable(table, inner))

/** An expression as CREATE INDEX takes it: anything but a column's name in parentheses. */
function indexExpression(expression: string): string {
  const onTable = expression.replaceAll(/\bt\./g, '')
  return /^(?:\w+|"[^"]+")$/.test(onTable) ? onTable : `(${onTable})`
}
