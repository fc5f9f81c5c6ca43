import type pg from 'pg'
import { DemoProblem } from '../problem.ts'
import type { DemoSettings } from '../settings.ts'
import { makeAccounts } from './accounts.ts'
import { makeContacts } from './contacts.ts'
import { CRM_VERSION, FINISH, INSERT_ACCOUNTS, INSERT_CONTACTS, TABLES } from './tables.ts'

/**
 * Makes the CRM in a database that has none: all of it in one transaction, so that one that is there is whole.
 * @returns whether it was made now
 * @throws DemoProblem where there is one of another version of the demo
 */
export async function makeCrm(
  client: pg.Client,
  size: Pick<DemoSettings, 'seed' | 'accounts' | 'contacts'>,
): Promise<boolean> {
  const { rows } = await client.query<{ version: string | null }>(
    "select obj_description(oid, 'pg_namespace') as version from pg_namespace where nspname = 'crm'",
  )
  if (rows[0]) {
    if (rows[0].version === CRM_VERSION) return false
    throw new DemoProblem(
      'The CRM in .fillrate was made by another version of the demo.\nTake it away to start anew: rm -rf .fillrate',
    )
  }
  const { accounts, companies } = makeAccounts(size.seed, size.accounts)
  const contacts = makeContacts(size.seed, size.contacts, companies)
  await client.query('begin')
  await client.query(TABLES)
  await client.query(INSERT_ACCOUNTS, [JSON.stringify(accounts)])
  await client.query(INSERT_CONTACTS, [JSON.stringify(contacts)])
  await client.query(FINISH)
  await client.query('commit')
  return true
}
