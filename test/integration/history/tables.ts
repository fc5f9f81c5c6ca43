import type pg from 'pg'
import { crmConfig } from '../../support/crm.ts'

/** Checksum of a table's content, which changes with any byte of it. */
export async function checksum(pool: pg.Pool, table: string): Promise<string> {
  const { rows } = await pool.query<{ sum: string }>(
    `select md5(coalesce(string_agg(t::text, chr(10) order by t::text), '')) as sum from ${table} t`,
  )
  return rows[0]?.sum ?? ''
}

/** Rows by state, with the reasons if requested. */
export async function states(pool: pg.Pool, source: string): Promise<Record<string, number>> {
  const { rows } = await pool.query<{ state: string; count: number }>(
    'select state, count(*)::int as count from fillrate.rows where source = $1 group by state',
    [source],
  )
  return Object.fromEntries(rows.map((row) => [row.state, row.count]))
}

/** The configuration of the small CRM with changes to its only source. */
export const withContacts = (changes: object): object => ({
  ...crmConfig,
  sources: { contacts: { ...crmConfig.sources.contacts, ...changes } },
})
