import { createHash } from 'node:crypto'
import type pg from 'pg'

/**
 * Creates the table to enrich. All addresses differ: a shared one would be one call for Fillrate and two for the plain
 * script, and this benchmark compares speed, not saved calls.
 */
export async function createCrm(client: pg.Client, rows: number): Promise<void> {
  await client.query(`
    create schema crm;
    create table crm.contacts (
      id bigint generated always as identity primary key,
      email text, first_name text, last_name text,
      title text, phone text, seniority text, company text, enriched_at timestamptz
    )`)
  // One in seven has a title typed by hand, which must stay.
  await client.query(
    `insert into crm.contacts (email, first_name, last_name, title)
     select 'Person' || n || '@Example.com', 'Ada', 'Nr ' || n, case when n % 7 = 0 then 'typed by hand' end
       from generate_series(1, $1::int) n`,
    [rows],
  )
}

/** Fillrate's configuration for the table. */
export const crmConfig = (concurrency: number): object => ({
  sources: {
    contacts: {
      kind: 'person',
      table: 'crm.contacts',
      inputs: { email: 't.email' },
      outputs: { title: 'title', phone: 'phone', seniority: 'seniority', company: 'company.name' },
      touch: { enriched_at: 'now()' },
    },
  },
  service: { concurrency },
  budget: 'unlimited',
})

/**
 * A checksum of the table. It must be the same for all candidates, or one of them did not do the work that its rate is
 * measured for.
 */
export async function checksum(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ sums: string[] }>(
    `select array_agg(md5(concat_ws('|', id, title, phone, seniority, company)) order by id) as sums
       from crm.contacts`,
  )
  return createHash('md5')
    .update(rows[0]?.sums.join('') ?? '')
    .digest('hex')
}
