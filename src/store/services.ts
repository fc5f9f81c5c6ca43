import { sql } from 'kysely'
import type { Database } from './open.ts'

export interface KnownService {
  readonly id: number
  /** The host, with the path in front of `/v1` if there is one. */
  readonly host: string
}

/** The services that this database knows, the first one first. */
export async function listServices(db: Database): Promise<KnownService[]> {
  const { rows } = await sql<KnownService>`select id, host from fillrate.services order by id`.execute(db)
  return rows
}

/**
 * The id of a service, or the id that a new one would get. Writes nothing.
 * @param host null: none is configured, and the first one is meant
 */
export async function findService(db: Database, host: string | null): Promise<number> {
  const known = await listServices(db)
  if (host === null) return known[0]?.id ?? 0
  return known.find((one) => one.host === host)?.id ?? nextServiceId(known)
}

const nextServiceId = (known: readonly KnownService[]): number =>
  Math.max(-1, ...known.map((one) => one.id)) + 1

/**
 * The id of a service, which is inserted if it is new.
 * @param listed the services that were known a moment ago
 */
export async function insertService(
  db: Database,
  host: string,
  listed: readonly KnownService[],
): Promise<number> {
  for (let known = listed; ; known = await listServices(db)) {
    const found = known.find((one) => one.host === host)
    if (found) return found.id
    // Another process may take the id, or insert the host, at the same moment: look again.
    await sql`
      insert into fillrate.services (id, host) values (${nextServiceId(known)}, ${host}) on conflict do nothing`.execute(
      db,
    )
  }
}

/** The first service has moved: its results belong to another host from now on. */
export async function moveService(db: Database, host: string): Promise<void> {
  await sql`update fillrate.services set host = ${host} where id = 0`.execute(db)
}
