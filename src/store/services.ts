import type { Selectable } from 'kysely'
import type { Database } from './open.ts'
import type { Schema } from './schema.ts'

type KnownService = Pick<Selectable<Schema['fillrate.services']>, 'id' | 'host'>

/** The services that this database knows, the first one first. */
export const listServices = (db: Database): Promise<KnownService[]> =>
  db.selectFrom('fillrate.services').select(['id', 'host']).orderBy('id').execute()

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
    const inserted = db.insertInto('fillrate.services').values({ id: nextServiceId(known), host })
    await inserted.onConflict((on) => on.doNothing()).execute()
  }
}

/** The first service has moved: its results belong to another host from now on. */
export async function moveService(db: Database, host: string): Promise<void> {
  await db.updateTable('fillrate.services').set({ host }).where('id', '=', 0).execute()
}
