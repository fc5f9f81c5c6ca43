import { sql } from 'kysely'
import type { Database } from './open.ts'

export interface KnownService {
  readonly id: number
  /** The host, with the path in front of `/v1` where there is one. */
  readonly host: string
}

/** The services that this database has met, the first one first. */
export async function listServices(db: Database): Promise<KnownService[]> {
  const { rows } = await sql<KnownService>`select id, host from fillrate.services order by id`.execute(db)
  return rows
}

/**
 * The number of a service; where it was not met before, the one that it would be given. Writes nothing.
 * @param host null: none is configured, and the first is meant
 */
export async function findService(db: Database, host: string | null): Promise<number> {
  const known = await listServices(db)
  if (host === null) return known[0]?.id ?? 0
  return known.find((one) => one.host === host)?.id ?? nextServiceId(known)
}

const nextServiceId = (known: readonly KnownService[]): number =>
  Math.max(-1, ...known.map((one) => one.id)) + 1

/** The number of a service, given to it for good where it was not met before. */
export async function insertService(db: Database, host: string): Promise<number> {
  for (;;) {
    const known = await listServices(db)
    const found = known.find((one) => one.host === host)
    if (found) return found.id
    // Another process may take the number, or name the host, at the same moment: then it is looked for again.
    await sql`
      insert into fillrate.services (id, host) values (${nextServiceId(known)}, ${host}) on conflict do nothing`.execute(
      db,
    )
  }
}

/** The first service that was met has moved: its answers are those of another host from now on. */
export async function moveService(db: Database, host: string): Promise<void> {
  await sql`update fillrate.services set host = ${host} where id = 0`.execute(db)
}
