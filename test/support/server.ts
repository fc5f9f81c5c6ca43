import pg from 'pg'

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
