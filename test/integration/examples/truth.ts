import type pg from 'pg'
import type { Json } from './tables.ts'

interface SourceTruth {
  readonly rows: number
  /** Rows in which nothing is blank. */
  readonly complete: number
  /** Rows that lack something and can be asked about. */
  readonly askable: number
  /** Of the others that lack something: how many for each reason. */
  readonly faults: Readonly<Record<string, number>>
}

/** What plain SQL says of an example, see truth.sql. */
export interface Truth {
  readonly sources: ReadonlyMap<string, SourceTruth>
  /** Questions, each once. */
  readonly distinct: number
  readonly byKind: Readonly<Record<string, number>>
  /** By source and key: the cells that may be written there. */
  readonly askable: ReadonlyMap<string, { readonly cells: string[] }>
  /** Cells that hold a value. */
  readonly typed: number
  /** One text that changes with any of the values that another truth found typed. */
  typedSum(other: Truth): string
  readonly values: ReadonlyMap<string, Json>
}

export async function readTruth(pool: pg.Pool): Promise<Truth> {
  const { rows: sources } = await pool.query<{ source: string } & Omit<SourceTruth, 'faults'>>(`
    select source, count(*)::int as rows, (count(*) filter (where not lacks))::int as complete,
           (count(*) filter (where lacks and question is not null))::int as askable
      from truth.verdicts group by source`)
  const { rows: faults } = await pool.query<{ source: string; fault: string; count: number }>(`
    select source, fault, count(*)::int from truth.verdicts where lacks and question is null group by 1, 2`)
  const { rows: kinds } = await pool.query<{ kind: string; count: number }>(`
    select kind, count(distinct question)::int from truth.verdicts where lacks and question is not null group by kind`)
  const { rows: askable } = await pool.query<{ source: string; key: string; cells: string[] }>(`
    select source, key, array(select jsonb_object_keys(cells)) as cells
      from truth.rows join truth.verdicts using (source, key) where lacks and question is not null`)
  const { rows: typed } = await pool.query<{ place: string; value: Json }>(`
    select source || ' ' || key || ' ' || cell.name as place, cell.value
      from truth.rows, jsonb_each(cells) as cell(name, value) where not truth.is_blank(value)`)
  const values = new Map(typed.map(({ place, value }) => [place, value]))
  return {
    sources: new Map(
      sources.map(({ source, ...counts }) => {
        const own = faults.filter((one) => one.source === source).map(({ fault, count }) => [fault, count])
        return [source, { ...counts, faults: Object.fromEntries(own) as Record<string, number> }]
      }),
    ),
    distinct: kinds.reduce((sum, { count }) => sum + count, 0),
    byKind: Object.fromEntries(kinds.map(({ kind, count }) => [kind, count])),
    askable: new Map(askable.map(({ source, key, cells }) => [`${source} ${key}`, { cells }])),
    typed: typed.length,
    values,
    typedSum: (other) =>
      JSON.stringify([...other.values.keys()].sort().map((place) => [place, values.get(place)])),
  }
}

/** Blank as people mean it: nothing, or nothing to be seen. */
export const isBlank = (value: Json | undefined): boolean =>
  value === undefined ||
  value === null ||
  (typeof value === 'string' && /^[\s\u00a0\u200b]*$/.test(value)) ||
  (Array.isArray(value) && value.length === 0)
