import type pg from 'pg'
import type { Output } from '../cli/terminal.ts'
import { renderTable } from '../cli/views/table.ts'

/** A contact before and after the run. */
export interface ContactExample {
  readonly key: string
  readonly name: string
  readonly cells: readonly {
    readonly column: string
    /** Null for NULL. */
    readonly before: string | null
    readonly after: string | null
  }[]
}

const CELLS_SQL = `jsonb_build_object('title', title, 'phone', phone, 'seniority', seniority::text,
                             'department', attributes ->> 'department')`

/** Saves the contacts as they are now, in a temporary table of the client's connection. */
export async function saveContacts(client: pg.Client): Promise<void> {
  await client.query(
    `create temp table contacts_before as select id, ${CELLS_SQL} as cells from crm.contacts`,
  )
}

/** Contacts that changed since `saveContacts`: first one with a placeholder that a person typed, then one with a phone. */
export async function listExamples(client: pg.Client): Promise<ContactExample[]> {
  const { rows } = await client.query<ContactExample>(
    `with changed as (
       select c.id, btrim(concat_ws(' ', btrim(c.first_name), btrim(c.last_name))) as name, b.cells as before, ${CELLS_SQL} as after,
              case when b.cells ->> 'title' = 'N/A' then 1 when b.cells ->> 'phone' ~ '[0-9]{4}' then 2 else 3 end as kind
         from crm.contacts c join contacts_before b using (id) where b.cells <> ${CELLS_SQL}
     )
     select distinct on (kind) id::text as key, name,
            (select jsonb_agg(jsonb_build_object('column', key, 'before', before ->> key, 'after', after ->> key) order by place)
               from unnest(array['title', 'phone', 'seniority', 'department']) with ordinality as x (key, place)
              where after ->> key is not null) as cells
       from changed where name ~ '^[^ ]+ [^ ]+$'
      order by kind, (select count(*) from jsonb_each(before) o join jsonb_each(after) n using (key) where o.value <> n.value) desc, id`,
  )
  return rows
}

/** Nothing without examples: a run that wrote nothing. */
export function renderExamples(output: Output, examples: readonly ContactExample[]): string[] {
  if (examples.length === 0) return []
  const rows = examples.flatMap(({ name, cells }) =>
    cells.map((cell, n) => ({ name: n === 0 ? name : '', ...cell })),
  )
  const isKept = ({ before, after }: (typeof rows)[number]): boolean => before === after
  return [
    '',
    'Some people, before and after. What a person typed stays, also "N/A":',
    '',
    ...renderTable(
      output,
      rows,
      [
        { title: 'person', text: ({ name }) => name },
        { title: 'column', text: ({ column }) => column },
        { title: 'before', text: ({ before }) => before?.trim() ?? '', minColumns: 8 },
        {
          title: 'after',
          text: ({ after }) => after?.trim() ?? '',
          minColumns: 12,
          style: (row) => (isKept(row) ? 'quiet' : 'good'),
        },
        { title: '', text: (row) => (isKept(row) ? 'kept' : '') },
      ],
      { indent: 2 },
    ),
  ]
}
