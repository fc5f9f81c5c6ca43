import pg from 'pg'
import { migrate } from '../../src/store/migrate.ts'
import { openDatabase } from '../../src/store/open.ts'

/** The migrated, empty database that test databases are cloned from. */
export const TEMPLATE = 'fillrate_template'

/** Runs `act` with a connection to the server's own database, for what cannot be done in the database concerned. */
export async function onServer<T>(url: string, act: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await act(client)
  } finally {
    await client.end()
  }
}

/** Creates the template on a server, in place of one that is there. */
export async function createTemplate(server: string): Promise<void> {
  await onServer(server, async (client) => {
    await client.query(`drop database if exists ${TEMPLATE} with (force)`)
    await client.query(`create database ${TEMPLATE}`)
  })
  const url = new URL(server)
  url.pathname = `/${TEMPLATE}`
  // As from Postgres 15 on. What holds where everybody may create in it is tested in faults/open-public.
  await onServer(url.href, (client) => client.query('revoke create on schema public from public'))
  const db = openDatabase({ url: url.href, max: 1 })
  await migrate(db)
  await db.destroy()
}
