import { sql } from 'kysely'
import type { Database } from './open.ts'

/** The sources that any row was ever picked from. Jumps along the index from one to the next, whatever the table's size. */
export async function sourceNames(db: Database): Promise<string[]> {
  const { rows } = await sql<{ source: string }>`
    with recursive names as (
      (select source from fillrate.rows order by source limit 1)
      union all
      select (select r.source from fillrate.rows r where r.source > names.source order by r.source limit 1)
        from names where names.source is not null
    )
    select source from names where source is not null`.execute(db)
  return rows.map((row) => row.source)
}
