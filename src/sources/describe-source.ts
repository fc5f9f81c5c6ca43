import { type RawBuilder, sql } from 'kysely'
import { escapeRegExp, listNames } from '../util/text.ts'
import { pluralize } from '../util/format.ts'
import { listReferences } from './check/references.ts'
import { type Db, query, queryValue } from './db.ts'
import { listConditions, nameIn, tokenizeCode } from './expression.ts'
import { countRowsWithoutKey } from './fill-counts.ts'
import { eligibleSql, joinsSql } from './inputs.ts'
import { pageQuery } from './page.ts'
import type { SourceFinding, SourceProblem } from './problems.ts'
import { describeHiddenRows, findProtectedSample, mayHideRows } from './row-security.ts'
import type { Source } from './source-model.ts'

/** Rows that are counted at most. */
const MAX_COUNTED = 1_000

/** Above this, reading the whole table page after page is worth a warning. */
const LARGE_TABLE_ROWS = 50_000

/**
 * Checks an open source's data and plans for problems that do not stop a run but that its owner should know. Reads one
 * row.
 */
export async function describeSource(db: Db, source: Source): Promise<SourceProblem[]> {
  const findings: readonly (SourceFinding | null)[] = [
    await describeRows(db, source),
    ...describeWrittenInWhere(source),
    await describeMissingKeys(db, source),
    await describePagePlans(db, source),
  ]
  return findings.flatMap((finding) => (finding === null ? [] : [{ ...finding, source: source.name }]))
}

/**
 * Conditions on columns that each write sets: a row leaves the source when it is written. Of the columns that are filled, only a
 * test for NULL is meant: a condition on their values may be right.
 */
function describeWrittenInWhere({ mapping, outputs, touches }: Source): SourceFinding[] {
  return listConditions(mapping).flatMap(([place, where]) => {
    const columns = new Set(
      listReferences(where).flatMap(({ kind, name }) => (kind === 'column' ? [name] : [])),
    )
    const text = tokenizeCode(where)
      .map((token) => nameIn(token) ?? token.text)
      .join(' ')
    const isTestedForNull = (column: string): boolean =>
      new RegExp(String.raw`(?:^|\bt \. |[^.] )${escapeRegExp(column)} is null\b`, 'i').test(text)
    const written = [
      ...touches.filter(({ attribute, path }) => path.length === 0 && columns.has(attribute)),
      ...outputs.filter(({ attribute, path }) => path.length === 0 && isTestedForNull(attribute)),
    ].map(({ column }) => column)
    if (written.length === 0) return []
    return [
      {
        place,
        found: `${where}\na condition on ${listNames(written)}, which the source writes: a row leaves it when it is written`,
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
      found:
        'no row that this role may read and that belongs to the source: row-level security may hide them',
      expected: 'policies that let the role read the rows',
      todo: await describeHiddenRows(db, source),
    }
  if (mapping.where.length === 0) return null
  return {
    place: 'where',
    found: `${mapping.where.join('\n')}\n${mapping.where.length === 1 ? 'a condition' : 'conditions'} that no row meets`,
    expected: 'conditions that some rows meet',
    todo: '`fillrate plan` shows how many rows each condition leaves out. Or the table has no rows.',
  }
}

async function describeMissingKeys(db: Db, source: Source): Promise<SourceFinding | null> {
  const nullable = source.keyColumns.filter((column) => !column.notNull).map((column) => column.name)
  const keyless = nullable.length === 0 ? 0 : await countRowsWithoutKey(db, source, MAX_COUNTED)
  if (keyless === 0) return null
  return {
    place: 'key',
    found: `${pluralize(keyless, 'row')}${keyless === MAX_COUNTED ? ' or more' : ''} with NULL in ${listNames(nullable)}: never looked up or written`,
    expected: 'a key that every row has',
    todo: 'Name another unique column as the key, or fill this one. Leave the rows out with `where` if they are not wanted.',
  }
}

/** Whether each page, or each pass by `changedAt`, reads the whole table. */
async function describePagePlans(db: Db, source: Source): Promise<SourceFinding | null> {
  const page = { after: null, limit: 1000, where: null, changedSince: null }
  const first = await explainQuery(db, source, pageQuery(source, page))
  // If one page holds all rows, reading the whole table once is the best plan.
  if (first !== null && scansWholeTable(source, first) && hasManyPages(first))
    return {
      place: 'joins',
      found: 'each page reads or sorts the whole table',
      expected: 'pages that follow the index of the key',
      todo: 'Make the joins left joins over indexed columns, so that the key’s index can be followed.',
    }
  const { changedAt } = source.mapping
  if (changedAt === null) return null
  // A time far ahead, because the planner must see that few rows match.
  const ahead = { ...page, changedSince: new Date('9999-01-01') }
  const changed = await explainQuery(db, source, pageQuery(source, ahead))
  if (changed === null || !scansWholeTable(source, changed)) return null
  return {
    place: 'changedAt',
    found: `${changedAt}, which no index serves: each pass reads the whole table`,
    expected: 'an index on it, so that a pass costs what has changed',
    todo: `create index concurrently on ${source.table.sql} (${indexExpression(changedAt)})`,
  }
}

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Plan Rows': number
  readonly Plans?: readonly Plan[]
}

/** A query's plan; null if the table is too small for the plan to matter. */
async function explainQuery(db: Db, source: Source, text: RawBuilder<unknown>): Promise<Plan | null> {
  const size = `select reltuples::float8 from pg_class where oid = $1::regclass`
  const rowCount = await queryValue<number>(db, size, [source.table.sql])
  if ((rowCount ?? 0) < LARGE_TABLE_ROWS) return null
  const { rows } = await sql<{ 'QUERY PLAN': ReadonlyArray<{ readonly Plan: Plan }> }>`
    explain (format json) ${text}`.execute(db)
  return rows[0]?.['QUERY PLAN'][0]?.Plan ?? null
}

/** Whether the plan scans the whole table, or sorts that much. */
const scansWholeTable = (source: Source, plan: Plan): boolean =>
  (plan['Node Type'] === 'Seq Scan' && plan['Relation Name'] === source.table.name) ||
  (plan['Node Type'] === 'Sort' && plan['Plan Rows'] >= LARGE_TABLE_ROWS) ||
  (plan.Plans ?? []).some((inner) => scansWholeTable(source, inner))

const hasManyPages = (plan: Plan): boolean =>
  (plan['Node Type'] === 'Limit' && (plan.Plans?.[0]?.['Plan Rows'] ?? 0) > 2 * plan['Plan Rows']) ||
  (plan.Plans ?? []).some(hasManyPages)

/** An expression as CREATE INDEX takes it: anything but a column's name in parentheses. */
function indexExpression(expression: string): string {
  const onTable = expression.replaceAll(/\bt\./g, '')
  return /^(?:\w+|"[^"]+")$/.test(onTable) ? onTable : `(${onTable})`
}
