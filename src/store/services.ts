import { sql, type Selectable } from 'kysely'
import type { Database, Schema } from './open.ts'
import type { Connection } from './transaction.ts'

export type KnownService = Pick<Selectable<Schema['fillrate.services']>, 'id' | 'host' | 'name'>

/** The services that this database knows, the first one first. */
export const listServices = (db: Connection): Promise<KnownService[]> =>
  db.selectFrom('fillrate.services').select(['id', 'host', 'name']).orderBy('id').execute()

/**
 * The id of a service, or the id that a new one would get. Writes nothing.
 * @param host null: none is configured, and the first one is meant
 */
export async function findService(db: Database, host: string | null): Promise<number> {
  const known = await listServices(db)
  if (host === null) return known[0]?.id ?? 0
  return known.find((service) => service.host === host)?.id ?? nextServiceId(known)
}

/** What to call each service, by its id. Empty: the database knows one alone, which needs no name. */
export async function nameServices(db: Connection): Promise<ServiceNames> {
  const known = await listServices(db)
  return new Map(known.length < 2 ? [] : known.map(({ id, host, name }) => [id, name ?? host]))
}

/** The services by their ids. Empty: there is one alone, which is not named. */
export type ServiceNames = ReadonlyMap<number, string>

/** The field that names a service. None: it is not known, or alone. */
export function toServiceName(names: ServiceNames, service: number | null): { readonly service?: string } {
  const name = service === null ? undefined : names.get(service)
  return name === undefined ? {} : { service: name }
}

/** Names the services of rows. */
export async function withServiceNames<Row extends { readonly service_id: number | null }>(
  db: Connection,
  rows: readonly Row[],
): Promise<(Omit<Row, 'service_id'> & { readonly service?: string })[]> {
  const names = await nameServices(db)
  return rows.map(({ service_id: service, ...row }) => ({ ...row, ...toServiceName(names, service) }))
}

/** Lets a service be tried at once: by its leader, by a process whose key was refused, and by the next leader. */
export async function requestTry(db: Connection, service: number): Promise<void> {
  await sql`
    with probed as (
      update fillrate.circuit_breakers set probe_at = now() where service_id = ${service}
    )
    update fillrate.services set try_at = clock_timestamp() where id = ${service}`.execute(db)
}

/** When a service was to be tried last, for a person or because a key was accepted again, in milliseconds; null: never. */
export async function readTry(db: Connection, service: number): Promise<number | null> {
  const tries = db.selectFrom('fillrate.services').select('try_at').where('id', '=', service)
  return (await tries.executeTakeFirst())?.try_at?.getTime() ?? null
}

const nextServiceId = (known: readonly KnownService[]): number =>
  Math.max(-1, ...known.map(({ id }) => id)) + 1

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
    const found = known.find((service) => service.host === host)
    if (found) return found.id
    // Another process may take the id, or insert the host, at the same moment: look again.
    const inserted = db.insertInto('fillrate.services').values({ id: nextServiceId(known), host })
    await inserted.onConflict((on) => on.doNothing()).execute()
  }
}

/** Notes what the configuration calls a service. Another one that had the name before loses it. */
export async function recordServiceName(db: Database, id: number, name: string): Promise<void> {
  const others = db.updateTable('fillrate.services').set({ name: null }).where('id', '<>', id)
  await others.where('name', '=', name).execute()
  const named = db.updateTable('fillrate.services').set({ name }).where('id', '=', id)
  await named.where('name', 'is distinct from', name).execute()
}
