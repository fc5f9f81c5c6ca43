import type pg from 'pg'

/** Creates the table with triggers. @param indexed with typical indexes besides the primary key */
export async function createCrm(client: pg.Client, rows: number, indexed: boolean): Promise<void> {
  await client.query(`
    create schema crm;
    create table crm.contacts (
      id bigint generated always as identity primary key,
      email text, first_name text, last_name text,
      title text, phone text, seniority text, company text,
      created_at timestamptz not null default now(), enriched_at timestamptz
    )`)
  if (indexed)
    await client.query(`
      create index on crm.contacts (email);
      create index on crm.contacts (last_name, first_name)`)
  await insertRows(client, rows, 'before')
}

/** Inserts rows with distinct addresses, so that each is a lookup of its own. */
export async function insertRows(client: pg.Client, rows: number, prefix: string): Promise<void> {
  await client.query(
    `insert into crm.contacts (email, first_name, last_name)
     select $2 || n || '@example.com', 'Ada', 'Nr ' || n from generate_series(1, $1::int) n`,
    [rows, prefix],
  )
}

export const crmConfig = {
  sources: {
    contacts: {
      kind: 'person',
      table: 'crm.contacts',
      inputs: { email: 't.email' },
      outputs: { title: 'title', phone: 'phone', seniority: 'seniority', company: 'company.name' },
      touch: { enriched_at: 'now()' },
      follow: true,
    },
  },
  budget: 'unlimited',
} as const
