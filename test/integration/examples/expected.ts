import type pg from 'pg'
import type { Json } from './tables.ts'

interface ExpectedSource {
  readonly rows: number
  /** Rows without a blank cell. */
  readonly complete: number
  /** Rows with a blank cell and a usable input. */
  readonly validInput: number
  /** Rows with a blank cell and no usable input, by reason. */
  readonly faults: Readonly<Record<string, number>>
}

/** What an example must lead to, computed in plain SQL: see expected.sql. */
export interface Expected {
  readonly sources: ReadonlyMap<string, ExpectedSource>
  /** Distinct lookups. */
  readonly distinct: number
  readonly byKind: Readonly<Record<string, number>>
  /** The cells that may be written, by source and key. */
  readonly validInput: ReadonlyMap<string, { readonly cells: string[] }>
  /** Cells that hold a value. */
  readonly typed: number
  /** A text that changes with any of the typed values of `other`. */
  typedSum(other: Expected): string
  readonly values: ReadonlyMap<string, Json>
}

export async function readExpected(pool: pg.Pool): Promise<Expected> {
  const { rows: sources } = await pool.query<{ source: string } & Omit<ExpectedSource, 'faults'>>(`
    select source, count(*)::int as rows, (count(*) filter (where not lacks))::int as complete,
           (count(*) filter (where lacks and lookup_key is not null))::int as "validInput"
      from expected.outcomes group by source`)
  const { rows: faults } = await pool.query<{ source: string; fault: string; count: number }>(`
    select source, fault, count(*)::int from expected.outcomes where lacks and lookup_key is null group by 1, 2`)
  const { rows: kinds } = await pool.query<{ kind: string; count: number }>(`
    select kind, count(distinct lookup_key)::int from expected.outcomes where lacks and lookup_key is not null group by kind`)
  const { rows: validInput } = await pool.query<{ source: string; key: string; cells: string[] }>(`
    select source, key, array(select jsonb_object_keys(cells)) as cells
      from expected.rows join expected.outcomes using (source, key) where lacks and lookup_key is not null`)
  const { rows: typed } = await pool.query<{ place: string; value: Json }>(`
    select source || ' ' || key || ' ' || cell.name as place, cell.value
      from expected.rows, jsonb_each(cells) as cell(name, value) where not expected.is_blank(value)`)
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
    validInput: new Map(validInput.map(({ source, key, cells }) => [`${source} ${key}`, { cells }])),
    typed: typed.length,
    values,
    typedSum: (other) =>
      JSON.stringify([...other.values.keys()].sort().map((place) => [place, values.get(place)])),
  }
}

/** Blank: no value, or nothing visible. */
export const isBlank = (value: Json | undefined): boolean =>
  value === undefined ||
  value === null ||
  (typeof value === 'string' && /^[\s\u00a0\u200b]*$/.test(value)) ||
  (Array.isArray(value) && value.length === 0)
