import type pg from 'pg'
import { BLANKS } from '../../sources/blanks.ts'

/** Proof that what was in the CRM before is in it still. */
export interface TypedValues {
  /** Cells that were not blank before. */
  readonly values: number
  readonly before: string
  readonly after: string
  /** Of them, those that hold another value now, or none. */
  readonly changed: number
}

/** What no person types: what the database sets, and what a run sets when it writes a row. */
const NOT_TYPED = ['id', 'created_at', 'updated_at', 'enriched_at', 'match_confidence']

/**
 * Every cell of both tables that is not blank, keys inside a jsonb column each by itself. Written apart from Fillrate's
 * own SQL on purpose: what it checks must not be what it is checked by.
 */
const CELLS = `
  select r.tab, r.id, c.key || coalesce('.' || k.key, '') as col, coalesce(k.value, c.value) as value
    from (select 'accounts' as tab, id, to_jsonb(a) as cells from crm.accounts a
           union all
          select 'contacts', id, to_jsonb(p) from crm.contacts p) r
   cross join lateral jsonb_each(r.cells - $1::text[]) c
    left join lateral jsonb_each(case when jsonb_typeof(c.value) = 'object' then c.value end) k on true
   where (jsonb_typeof(c.value) <> 'object' or k.key is not null)
     and coalesce(k.value, c.value) not in ('null', '[]')
     and not (jsonb_typeof(coalesce(k.value, c.value)) = 'string'
              and btrim(coalesce(k.value, c.value) #>> '{}', $2) = '')`

const CHECKSUM =
  "md5(string_agg(tab || ' ' || id || ' ' || col || ' ' || value, e'\\n' order by tab, id, col))"

/** Notes all values that are there now, in a table that ends with the client's connection. */
export async function noteTypedValues(client: pg.Client): Promise<{ check(): Promise<TypedValues> }> {
  const parameters = [NOT_TYPED, BLANKS]
  await client.query('drop table if exists typed_values')
  await client.query(`create temp table typed_values as ${CELLS}`, parameters)
  // Without its statistics the check would look up each value by itself.
  await client.query('analyze typed_values')
  const noted = await client.query<{ values: number; checksum: string | null }>(
    `select count(*)::integer as values, ${CHECKSUM} as checksum from typed_values`,
  )
  return {
    check: async () => {
      const now = await client.query<{ checksum: string | null; changed: number }>(
        `with now as materialized (${CELLS}),
              them as (select tab, id, col, n.value, n.value is distinct from t.value as changed
                         from typed_values t left join now n using (tab, id, col))
         select ${CHECKSUM} as checksum, count(*) filter (where changed)::integer as changed from them`,
        parameters,
      )
      return {
        values: noted.rows[0]?.values ?? 0,
        before: noted.rows[0]?.checksum ?? '',
        after: now.rows[0]?.checksum ?? '',
        changed: now.rows[0]?.changed ?? 0,
      }
    },
  }
}
