import { sql } from 'kysely'
import { query, type Db } from './db.ts'
import { eligible, joins } from './inputs.ts'
import type { Source } from './mapped.ts'
import { listed } from './near.ts'
import { pageQuery, type PageOptions } from './page.ts'

/** Something that does not stop a run, and that its owner would want to know. */
export interface SourceFinding {
  readonly source: string
  readonly place: string
  readonly found: string
  readonly todo: string
}

/** Rows above which reading all of them, page after page, is worth a word. */
const LARGE = 50_000

/** Looks at an open source's data and plans: what `check` says beyond what is refused. Reads one row. */
export async function inspectSource(db: Db, source: Source): Promise<SourceFinding[]> {
  const add = (place: string, found: string, todo: string): SourceFinding => ({
    source: source.name,
    place,
    found,
    todo,
  })
  const findings: SourceFinding[] = []
  const rows = await query(
    db,
    `select from ${source.table.sql} as t ${joins(source)} where ${eligible(source)} limit 1`,
  )
  if (rows.length === 0)
    findings.push(
      source.mapping.where === null
        ? add('table', 'no row', 'Nothing to do, until rows are added or the joins find some.')
        : add(
            'where',
            'a condition that no row meets',
            'Check the condition, or whether the table has rows.',
          ),
    )

  const page = { after: null, limit: 1000, where: null, changedSince: null }
  if (await readsAll(db, source, page))
    findings.push(
      add(
        'joins',
        'each page reads or sorts the whole table',
        'Make the joins left joins over indexed columns, so that the key’s index can be followed.',
      ),
    )
  const { changedAt } = source.mapping
  // A time far ahead, because the planner must see that few rows are wanted.
  const ahead = { ...page, changedSince: new Date('9999-01-01') }
  if (changedAt !== null && (await readsAll(db, source, ahead)))
    findings.push(
      add(
        'changedAt',
        `${changedAt}, which no index serves: each pass reads the whole table`,
        `create index concurrently on ${source.table.sql} (${changedAt.replaceAll(/\bt\./g, '')})`,
      ),
    )
  for (const { column, fit, mapping } of source.outputs)
    if (fit.kind === 'enum' && mapping.map === null && mapping.sql === null)
      findings.push(
        add(
          `outputs.${column}`,
          `no map; a value that is not one of ${listed(fit.labels)} will be skipped`,
          'Give a `map` from the service’s values to the labels.',
        ),
      )
  return findings
}

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Plan Rows': number
  readonly Plans?: readonly Plan[]
}

/** Whether a page's plan scans a large table whole, or sorts that much. */
async function readsAll(db: Db, source: Source, options: PageOptions): Promise<boolean> {
  const { rows } = await sql<{ 'QUERY PLAN': ReadonlyArray<{ readonly Plan: Plan }> }>`
    explain (format json) ${pageQuery(source, options)}`.execute(db)
  const [size] = await query<{ rows: number }>(
    db,
    `select greatest(reltuples, 0)::float8 as rows from pg_class where oid = $1::regclass`,
    [source.table.sql],
  )
  if ((size?.rows ?? 0) < LARGE) return false
  const isWhole = (plan: Plan): boolean =>
    (plan['Node Type'] === 'Seq Scan' && plan['Relation Name'] === source.table.name) ||
    (plan['Node Type'] === 'Sort' && plan['Plan Rows'] >= LARGE) ||
    (plan.Plans ?? []).some(isWhole)
  return rows.some((row) => row['QUERY PLAN'].some(({ Plan }) => isWhole(Plan)))
}
