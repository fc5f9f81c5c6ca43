import { sql } from 'kysely'
import type { Database } from './open.ts'

/** How far a source with `changedAt` has been read under this mapping. Null: not yet, or the mapping was changed. */
export async function changedUntil(db: Database, source: string, mappingHash: string): Promise<Date | null> {
  const { rows } = await sql<{ changed_until: Date }>`
    select changed_until from fillrate.passes
     where source = ${source} and mapping_hash = ${mappingHash}`.execute(db)
  return rows[0]?.changed_until ?? null
}

export async function passed(db: Database, source: string, mappingHash: string, until: Date): Promise<void> {
  await sql`
    insert into fillrate.passes (source, mapping_hash, changed_until)
    values (${source}, ${mappingHash}, ${until})
    on conflict (source) do update
      set mapping_hash = excluded.mapping_hash, changed_until = excluded.changed_until`.execute(db)
}
