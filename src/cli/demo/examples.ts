import type pg from 'pg'

/** A contact before and after. */
export interface Example {
  readonly name: string
  /** What it was asked by, as it stands in the CRM. */
  readonly asked_by: string
  readonly cells: readonly {
    readonly column: string
    /** Null for NULL. */
    readonly before: string | null
    readonly after: string | null
  }[]
}

const CELLS = `jsonb_build_object('title', title, 'phone', phone, 'seniority', seniority::text,
                                  'department', attributes ->> 'department')`

/** Notes the contacts as they are now, in a table that ends with the client's connection. */
export async function noteContacts(
  client: pg.Client,
): Promise<{ examples(run: number): Promise<Example[]> }> {
  await client.query('drop table if exists contacts_before')
  await client.query(`create temp table contacts_before as select id, ${CELLS} as cells from crm.contacts`)
  return {
    examples: async (run) => {
      const { rows } = await client.query<Example>(EXAMPLES, [run])
      return rows
    },
  }
}

/** One of each kind: something typed that stays, and the ways of asking. */
const EXAMPLES = `
  with written as (
    select c.*, b.cells as cells_before, a.name as account, l.kind as asked
      from crm.contacts c
      join contacts_before b using (id)
      left join crm.accounts a on a.id = c.account_id
      join fillrate.rows r on r.source = 'contacts' and r.key = c.id::text
      join fillrate.lookups l on l.id = r.lookup_id
     where exists (select from fillrate.changes h where h.run_id = $1 and h.source = 'contacts' and h.key = r.key)
  ), compared as (
    select *, ${CELLS} as cells_after from written
  ), ranked as (
    select *,
           case when cells_before ->> 'title' in ('N/A', 'n/a', '-', '?', '0', 'unknown') then 1
                when asked = 'email' and cells_before ->> 'phone' ~ '[0-9]{2}' then 2
                when asked = 'email' and email <> lower(btrim(email)) then 3
                when asked = 'linkedin_url' then 4
                when asked = 'name_company' then 5 end as kind,
           (select count(*) from jsonb_each(cells_before) o join jsonb_each(cells_after) n using (key)
             where o.value <> n.value) as filled
      from compared
  ), chosen as (
    select distinct on (kind) * from ranked
     where kind is not null and btrim(first_name) <> ''
     order by kind, filled desc, id
  )
  select btrim(concat_ws(' ', btrim(first_name), btrim(last_name))) as name,
         case asked when 'email' then email
                    when 'linkedin_url' then linkedin
                    else concat_ws(' ', first_name, last_name) || ', ' || account end as asked_by,
         (select jsonb_agg(jsonb_build_object('column', key, 'before', o.value, 'after', n.value) order by place)
            from unnest(array['title', 'phone', 'seniority', 'department']) with ordinality as x (key, place)
            join jsonb_each(cells_before) o using (key)
            join jsonb_each(cells_after) n using (key)
           where o.value <> 'null' or n.value <> 'null') as cells
    from chosen order by kind`
