import { readFile } from 'node:fs/promises'
import { afterAll, expect, inject, test } from 'vitest'
import { hasPgBouncer, type PgBouncer, startPgBouncer } from '../../chaos/pgbouncer.ts'
import { readGuide, writeGuideConfig } from '../../support/guide.ts'
import { printDraft } from '../../support/init-folder.ts'
import { onServer } from '../../support/server.ts'
import { openCommandLine } from '../cli/command-line.ts'

// docs/guides/supabase.md, followed from nothing: what it says in each step, and what Fillrate says where a step is left out.

const ROLE = 'fillrate_supabase'
const ROLES = [ROLE, 'project_owner', 'supabase_auth_admin', 'service_role', 'authenticated', 'anon']
const guide = readGuide('supabase')
const [createRole = '', policies = '', limitPolicies = '', view = ''] = guide.sql
const [config = ''] = guide.configs

const dropRoles = (): Promise<unknown> =>
  onServer(inject('postgresUrl'), (client) => client.query(`drop role if exists ${ROLES.join(', ')}`))
// After the database, which `openCommandLine` drops.
afterAll(dropRoles)
await dropRoles()
const { database, cli, here } = await openCommandLine({
  prepare: async (pool) => {
    // As migrate finds it for a new user.
    await pool.query('drop schema fillrate cascade')
    await pool.query(await readFile('test/fixtures/guides/supabase.sql', 'utf8'))
    await pool.query(
      "do $$ begin execute format('alter database %I owner to project_owner', current_database()); end $$",
    )
  },
  service: { notFoundShare: 0, missingShare: 0 },
})
await writeGuideConfig(cli.folder, config)

const urlOf = (username: string, password: string, port?: number): string => {
  const url = Object.assign(new URL(database.url), { username, password })
  if (port !== undefined) url.port = String(port)
  return url.href
}
const direct = urlOf(ROLE, 'change me')

/** In the SQL editor. */
const runSql = (statements: string): Promise<unknown> =>
  onServer(urlOf('project_owner', 'owner'), (client) =>
    client.query(
      statements
        .replaceAll('fillrate_app', ROLE)
        .replace('database postgres', `database ${new URL(database.url).pathname.slice(1)}`),
    ),
  )

async function fillrate(url: string, ...words: string[]): Promise<{ code: number | null; printed: string }> {
  const { code, stdout, stderr } = await here(words, { DATABASE_URL: url, LOG_LEVEL: 'silent' })
  return { code, printed: (stdout + stderr).replaceAll(/\s+/g, ' ') }
}

async function printedDraft(): Promise<{ code: number | null; printed: string }> {
  const { code, stdout, stderr } = await printDraft(direct)
  return { code, printed: (stdout + stderr).replaceAll(/\s+/g, ' ') }
}

test('without policies, init and check print them, and the grants that the users’ policies need', async () => {
  await runSql(createRole)
  await runSql('revoke select on memberships from fillrate_app')
  const proposed = await printedDraft()
  const checked = await fillrate(direct, 'check')
  expect(proposed.printed).toContain('GRANT SELECT (org_id, user_id) ON public.memberships')
  // The condition of a source reads all of it. Two sources need the same policy, which is printed once.
  expect(checked.printed).toContain('GRANT SELECT ON public.memberships')
  expect(checked.printed.match(/_select ON public.organizations/g)).toHaveLength(1)
  // Of profiles the role sees no row, though a policy applies to it.
  expect(proposed.printed).toContain(`CREATE POLICY ${ROLE}_select ON public.profiles FOR SELECT`)
  expect(proposed.printed).toContain(`CREATE POLICY ${ROLE}_update ON public.profiles FOR UPDATE`)
  expect(proposed.code).toBe(1)
  expect(checked.code).toBe(2)
  await runSql('grant select on memberships to fillrate_app')
})

test('a table of accounts that belongs to the platform is reported', async () => {
  await runSql(policies)
  await runSql(limitPolicies)
  await runSql(`grant select (id, email) on auth.users to fillrate_app`)
  await writeGuideConfig(cli.folder, config.replace('private.signup_emails', 'auth.users'), 'accounts.ts')
  const { printed } = await fillrate(direct, 'check', '--config', 'accounts.ts')
  expect(printed).toContain(`${ROLE}_select ON auth.users`)
  expect(printed).not.toContain('memberships')
  await runSql('revoke all on auth.users from fillrate_app')
})

test('with all steps of the guide, check is satisfied, and init proposes the contacts', async () => {
  await runSql(view)
  expect(await fillrate(direct, 'migrate')).toMatchObject({ code: 0 })
  await runSql('revoke trigger on contacts from fillrate_app')
  const refused = await fillrate(direct, 'follow', 'install', 'contacts')
  expect(refused.printed).toContain(`grant trigger on "public"."contacts" to ${ROLE};`)
  await runSql('grant trigger on contacts to fillrate_app')
  expect(await fillrate(direct, 'follow', 'install', 'contacts', 'signups')).toMatchObject({ code: 0 })
  const { code, printed } = await fillrate(direct, 'check')
  expect(printed).toContain('Ready to run')
  expect([code, printed.includes(' ! source')]).toEqual([0, false])
  const proposed = await printedDraft()
  expect(proposed.code).toBe(0)
  expect(proposed.printed).toContain(
    'contacts: people by email; fills 2 columns; 2 conditions in force, 0 to choose from',
  )
  // What the steps have granted is not asked for again.
  expect(proposed.printed).not.toContain('ON public.')
  // The API's roles have no right in the schema of Fillrate.
  expect(
    await database.query(`select rolname from pg_roles
      where rolname in ('anon', 'authenticated') and has_schema_privilege(rolname, 'fillrate', 'usage')`),
  ).toEqual([])
})

const ports: readonly ['direct' | 'pooled', boolean][] = [
  ['direct', true],
  ['pooled', hasPgBouncer()],
]
test.each(ports.filter(([, isThere]) => isThere))(
  'over the %s port: a dry run, a run, undo, and live sync for users of the API',
  async (port) => {
    const pooler: PgBouncer | null = port === 'pooled' ? await startPgBouncer(new URL(direct)) : null
    const url = pooler === null ? direct : urlOf(ROLE, 'change me', pooler.port)
    try {
      await database.query(`update contacts set title = null, phone = null where title is distinct from 'Typed by hand';
        update profiles set title = null, company = null; truncate fillrate.changes, fillrate.rows cascade`)
      const before = await database.query('select * from contacts order by id')
      expect((await fillrate(url, 'run', '--dry-run', '--budget', '5')).code).not.toBe(1)
      expect(await database.query('select * from contacts order by id')).toEqual(before)

      const ran = JSON.parse((await here(['run', '--json'], { DATABASE_URL: url })).stdout) as {
        run: number
        rows: unknown
      }
      expect(ran.rows).toMatchObject({ picked: 47, write_rejected: 0, waiting: 0 })
      expect(await database.count(`contacts where title = 'Typed by hand'`)).toBe(5)
      expect(await database.count(`fillrate.lookups where input::text ilike '%left-out-%'`)).toBe(0)
      expect(await database.count('profiles where title is not null')).toBeGreaterThan(6)
      expect(await database.count('audit_log where actor is not null')).toBe(0)
      expect(await fillrate(url, 'undo', String(ran.run), '--yes')).toMatchObject({ code: 0 })
      const restored = await database.query('select * from contacts order by id')
      expect(restored).toEqual(before)

      await expectLiveSync(url, port)
    } finally {
      await pooler?.stop()
    }
  },
)

/** A user of the API adds a contact, and somebody signs up. */
async function expectLiveSync(url: string, name: string): Promise<void> {
  const daemon = cli.startWith({ DATABASE_URL: url, LOG_LEVEL: 'silent' }, 'start')
  try {
    await database.query(`begin;
      select set_config('request.jwt.claim.sub', (select user_id::text from memberships limit 1), true);
      set local role authenticated;
      insert into contacts (org_id, full_name, email) select org_id, 'Live', '${name}@live.example' from memberships limit 1;
      commit;
      insert into auth.users (email, email_confirmed_at) values ('${name}@signup.example', now())`)
    const enriched = (): Promise<number> =>
      database.count(`fillrate.rows where state in ('enriched', 'unchanged')
        and key in (select id::text from contacts where email = '${name}@live.example'
                    union select id::text from auth.users where email = '${name}@signup.example')`)
    await expect.poll(enriched).toBe(2)
    await database.query(
      `delete from contacts where full_name = 'Live'; delete from auth.users where email like '%@signup.example'`,
    )
  } finally {
    daemon.child.kill('SIGTERM')
    await daemon.ended
  }
}
