import { createHash } from 'node:crypto'
import type pg from 'pg'

/**
 * The table that is enriched. Every address is a different one: a shared address would be one call for Fillrate and
 * two for the plain script, and what is compared here is the speed, not the thrift.
 */
export async function createCrm(client: pg.Client, rows: number): Promise<void> {
  await client.query(`
    create schema crm;
    create table crm.contacts (
      id bigint generated always as identity primary key,
      email text, first_name text, last_name text,
      title text, phone text, seniority text, company text, enriched_at timestamptz
    )`)
  // One in seven has a title that somebody typed, and that must stay.
  await client.query(
    `insert into crm.contacts (email, first_name, last_name, title)
     select 'Person' || n || '@Example.com', 'Ada', 'Nr ' || n, case when n % 7 = 0 then 'typed by hand' end
       from generate_series(1, $1::int) n`,
    [rows],
  )
}

/** Fillrate's configuration for it. */
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
 * What the table holds at the end, as one short text: the same for every contender, or one of them did not do the
 * work that its rate is claimed for.
 */
export async function contents(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ sums: string[] }>(
    `select array_agg(md5(concat_ws('|', id, title, phone, seniority, company)) order by id) as sums
       from crm.contacts`,
  )
  return createHash('md5')
    .update(rows[0]?.sums.join('') ?? '')
    .digest('hex')
}
