import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { DescriptionForm, StoredForm } from '../domain/service/description-form.ts'
import type { Database } from './open.ts'
import type { Schema } from './schema.ts'
import type { Connection } from './transaction.ts'

export type KnownService = Pick<Selectable<Schema['fillrate.services']>, 'id' | 'host' | 'name'>

/** SQL: the number of a service that the configuration names; NULL if it was never called. */
export const serviceNumberSql = (name: string): RawBuilder<number | null> =>
  sql`(select max(id) from fillrate.services where name = ${name})`

/** The services that this database knows, the first one first. */
export const listServices = (db: Database): Promise<KnownService[]> =>
  db.selectFrom('fillrate.services').select(['id', 'host', 'name']).orderBy('id').execute()

/**
 * The id of a service, or the id that a new one would get. Writes nothing.
 * @param host null: none is configured, and the first one is meant
 */
export async function findService(db: Database, host: string | null): Promise<number> {
  const known = await listServices(db)
  if (host === null) return known[0]?.id ?? 0
  return known.find((one) => one.host === host)?.id ?? nextServiceId(known)
}

/** What to call each service, by its id. Empty: the database knows one alone, which needs no name. */
export async function nameServices(db: Connection): Promise<ServiceNames> {
  const known = await db
    .selectFrom('fillrate.services')
    .select(['id', sql<string>`coalesce(name, host)`.as('name')])
    .execute()
  return new Map(known.length < 2 ? [] : known.map(({ id, name }) => [id, name]))
}

/**
 * Whether files name the service of each line, in a last column: where the configuration names several. A reader of the file of
 * one service gets no other columns.
 */
export async function hasNamedServices(db: Database): Promise<boolean> {
  const known = await listServices(db)
  return known.length > 1 && known.some(({ name }) => name !== null)
}

/** The services by their ids. Empty: there is one alone, which is not named. */
export type ServiceNames = ReadonlyMap<number, string>

/** The field that names a service. None: it is not known, or alone. */
export function toServiceName(names: ServiceNames, service: number | null): { readonly service?: string } {
  const name = service === null ? undefined : names.get(service)
  return name === undefined ? {} : { service: name }
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

/** Notes what the configuration calls a service. Another one that had the name before loses it. */
export async function recordServiceName(db: Database, id: number, name: string): Promise<void> {
  const others = db.updateTable('fillrate.services').set({ name: null }).where('id', '<>', id)
  await others.where('name', '=', name).execute()
  const named = db.updateTable('fillrate.services').set({ name }).where('id', '=', id)
  await named.where('name', 'is distinct from', name).execute()
}

/** Forms kept of a service: enough for edits, and few where two processes keep changing them. */
const MAX_FORMS = 20

/** Notes in what form records of a service are stored from now on, unless it is the last one. */
export async function recordForm(db: Database, id: number, form: DescriptionForm): Promise<void> {
  const parts = sql`${JSON.stringify(form)}::jsonb`
  await sql`
    update fillrate.services
       set forms = case when jsonb_array_length(forms) >= ${MAX_FORMS} then forms - 0 else forms end
                   || jsonb_build_array(jsonb_build_object('since', now(), 'parts', ${parts}))
     where id = ${id} and forms -> -1 -> 'parts' is distinct from ${parts}`.execute(db)
}

/** The forms of a service's description, the latest last. */
export async function listForms(db: Database, id: number): Promise<readonly StoredForm[]> {
  const found = db.selectFrom('fillrate.services').select('forms').where('id', '=', id)
  return ((await found.executeTakeFirst())?.forms ?? []) as readonly StoredForm[]
}

interface RecordsOfForm {
  /** How many of the forms began before these records were stored. */
  readonly forms: number
  readonly records: number
}

/** Stored records of a service by the form of their time. Reads every lookup: call it with a timeout. */
export async function countRecordsByForm(
  db: Connection,
  id: number,
  forms: readonly StoredForm[],
): Promise<RecordsOfForm[]> {
  const since = sql`${forms.map((one) => one.since)}::timestamptz[]`
  const { rows } = await sql<RecordsOfForm>`
    select width_bucket(resolved_at, ${since}) as forms, count(*)::int as records
      from fillrate.lookups where service_id = ${id} and state = 'found' group by 1 order by 1`.execute(db)
  return rows
}

/** A service has moved: its results belong to another host from now on. */
export async function moveService(db: Database, name: string, host: string): Promise<void> {
  await db.updateTable('fillrate.services').set({ host }).where('name', '=', name).execute()
}
