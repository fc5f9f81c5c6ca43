import type { ServerResponse } from 'node:http'
import pino from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { forgetSubject } from '../../../src/actions/forget.ts'
import { parseForgetTarget } from '../../../src/actions/forget-target.ts'
import { type CommandLine, createCommandLine } from '../../support/cli.ts'
import { useTestDatabase } from '../../support/database.ts'
import { type LoopbackService, type ReceivedRequest, startLoopback } from '../../support/loopback.ts'
import { signWebhook } from '../../../src/webhook/signature.ts'
import { personSource } from '../../support/crm.ts'

/*
 * A value, a key and an address in every place that an error may quote: a marker is put into typed cells, keys, records, what
 * triggers raise, the service's answers and deliveries. It is to be found where records and cells are stored, and nowhere else.
 */

/** Values of rows and records. No digit, no quote and no @: nothing but its origin says that it is one. */
const VALUE = 'Zyxqwv'
/** Part of keys. */
const KEY = 'Qqkeyqq'
const ADDRESS = 'zyxqwv'
const SECRET = 'webhook-secret'

const hostOf = (table: string): string => `${table.replace('_', '-')}.example`

/** Columns that hold identifiers, keys, cells, records and bodies by design. */
const BY_DESIGN = new Set(
  `lookups.key lookups.input lookups.record rows.key rows.last_written rows.earlier_writes rows.own_writes changes.key
   changes.before changes.after changes.last_written_before skipped_cells.key skipped_cells.value
   deliveries.body deliveries.raw lookups.malformed changed_rows.keys`.split(/\s+/),
)

/** Tables whose rows provoke an error that quotes them, by what happens. */
const TABLES: Readonly<Record<string, string>> = {
  raised: `raise exception 'row % of % is closed for %', new.key, new.email, new.title;`,
  concatenated: `raise exception using message = 'closed for ' || new.title, detail = new.key, hint = new.email;`,
  own_code: `raise exception '% is closed', new.title using errcode = 'CRM01';`,
  conflict: `raise exception '% waits', new.title using errcode = '40001';`,
  asserted: `assert new.title is null, 'no ' || new.title;`,
  syntax: `perform new.title::int;`,
  names: `perform new.title::regclass;`,
  zone: `perform now() at time zone new.title;`,
  audited: `insert into crm.seen values (new.email, new.title);`,
  checked: `insert into crm.short_titles values (new.title);`,
  plain: '',
  unique_title: '',
  unreadable: '',
  twice: '',
  scalar: '',
}

const database = useTestDatabase()
let service: LoopbackService
let cli: CommandLine
/** What the receiver of notifications got. */
const notified: string[] = []
const logged: string[] = []

function answer({ method, url, body, socket }: ReceivedRequest, response: ServerResponse): void {
  if (url === '/hook') {
    notified.push(body)
    response.writeHead(200).end()
    return
  }
  const { email = '' } = body === '' ? {} : (JSON.parse(body) as { email?: string })
  const send = (status: number, text: string): void =>
    void response.writeHead(status, { 'content-type': 'application/json', 'x-detail': VALUE }).end(text)
  if (method === 'GET') return send(500, `{"error": "${VALUE}"}`)
  if (email.includes('cut')) {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' })
    response.write(`{"title": "${VALUE}`, () => socket.destroy())
    return
  }
  const [, status] = /^s(\d+)/.exec(email) ?? []
  if (status !== undefined) return send(Number(status), `{"error": "no ${email} ${VALUE}"}`)
  if (email.includes('malformed')) return send(200, `{"title": ${VALUE}}`)
  send(200, JSON.stringify({ email, title: `${VALUE} title`, phone: `${VALUE} phone`, confidence: 0.9 }))
}

beforeAll(async () => {
  await database.query(`
    create schema crm;
    create table crm.seen (email text, title text, primary key (title));
    create table crm.short_titles (title text check (title !~ 'title'));
    insert into crm.seen values ('', '${VALUE} title')`)
  for (const [name, guard] of Object.entries(TABLES)) {
    await database.query(`
      create table crm.${name} (key text primary key, email text, note text, title text, phone text);
      insert into crm.${name} select '${KEY}' || n, '${ADDRESS}' || n || '@${hostOf(name)}', '${VALUE} note' from generate_series(1, 3) n`)
    if (guard !== '')
      await database.query(`
        create function crm.guard_${name}() returns trigger language plpgsql as $$ begin ${guard} return new; end $$;
        create trigger guard before update on crm.${name} for each row execute function crm.guard_${name}()`)
  }
  await database.query(`
    create unique index on crm.unique_title (title);
    insert into crm.plain (key, email) select '${KEY}' || s, s || '${ADDRESS}@plain.example'
      from unnest('{s400,s422,s404,s500,s418,malformed,cut}'::text[]) s;
    create table crm.firms (key text primary key, site text, title text);
    insert into crm.firms values ('${KEY}', '${ADDRESS}.example')`)
  service = await startLoopback(answer)
  const { url } = service
  const person = (table: string, more: object = {}) =>
    personSource(`crm.${table}`, { title: 'title', phone: 'phone' }, { key: 'key', follow: true, ...more })
  cli = await createCommandLine(
    database.url,
    { url, keys: ['key'], webhookSecret: SECRET },
    {
      sources: {
        ...Object.fromEntries(Object.keys(TABLES).map((name) => [name, person(name)])),
        unreadable: person('unreadable', {
          inputs: { email: `case when t.note ~ 'note' then (t.note::int)::text end` },
        }),
        twice: person('twice', { joins: 'left join (values (1), (2)) as two (n) on true' }),
        scalar: person('scalar', {
          inputs: { email: '(select u.email from crm.scalar u where u.key >= t.key)' },
        }),
        firms: {
          kind: 'company',
          table: 'crm.firms',
          key: 'key',
          inputs: { domain: 't.site' },
          outputs: { title: 'name' },
        },
      },
      budget: 'unlimited',
      attempts: 1,
      notify: [{ url: `${url}/hook`, on: ['error', 'warning'] }],
    },
  )
})
afterAll(async () => {
  await cli.remove()
  await service.close()
})

/** Rows of Fillrate's tables that contain a text, by column. Bytes are read as text. */
async function findMentions(text: string): Promise<string[]> {
  const rows = await database.query<{ table: string; column: string; type: string }>(`
    select c.relname as table, a.attname as column, format_type(a.atttypid, null) as type
      from pg_attribute a join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p')
     where c.relnamespace = 'fillrate'::regnamespace and a.attnum > 0 and not a.attisdropped order by 1, 2`)
  expect(rows.length).toBeGreaterThan(200)
  const found: string[] = []
  for (const { table, column, type } of rows) {
    const value = type === 'bytea' ? `encode("${column}", 'escape')` : `"${column}"::text`
    const hits = await database.query<{ value: string }>(
      `select ${value} as value from fillrate."${table}" where ${value} ilike '%' || $1 || '%' limit 1`,
      [text],
    )
    if (hits[0] !== undefined) found.push(`${table}.${column}: ${hits[0].value}`)
  }
  return found
}
const findLeaks = async (): Promise<string[]> => {
  const places = (await Promise.all([VALUE, KEY].map(findMentions))).flat()
  return places.filter((place) => !BY_DESIGN.has(place.split(':')[0] ?? ''))
}
const findIn = (texts: readonly string[]): string[] =>
  texts.filter((text) => new RegExp(`${VALUE}|${KEY}`, 'i').test(text))
/** Lines of the log; other lines are the command's answer to whoever typed it. */
const readLog = (stderr: string): string[] => stderr.split('\n').filter((line) => line.startsWith('{'))

test('a run of each fault ends, and stores and logs no value and no key', async () => {
  for (const name of [...Object.keys(TABLES), 'firms']) {
    const ended = await cli.run('run', name, '--route', 'sync', '--wait', '2s')
    logged.push(...readLog(ended.stderr))
  }
  expect.soft(logged.length).toBeGreaterThan(30)
  expect.soft(findIn(logged)).toEqual([])
  expect.soft(await findLeaks()).toEqual([])
  // Each fault was met, and has one reason for all its rows.
  const cells = await database.query<{ source: string; details: string[] }>(`
    select source, array_agg(distinct detail) as details from fillrate.skipped_cells
     where "column" = 'title' and detail is not null group by source`)
  const RAISED = 'raised by a trigger or function'
  expect(Object.fromEntries(cells.map(({ source, details }) => [source, details]))).toEqual({
    raised: [`${RAISED}: row … of … is closed for …`],
    concatenated: [`${RAISED}: crm.guard_concatenated(), line 1`],
    conflict: [`${RAISED}: … waits`],
    own_code: ['… is closed (CRM01)'],
    asserted: [`${RAISED}: crm.guard_asserted(), line 1 (P0004)`],
    syntax: ['invalid input syntax for type integer (22P02)'],
    names: ['invalid name syntax (42602)'],
    zone: ['time zone … not recognized (22023)'],
    audited: ['seen_pkey'],
    checked: ['short_titles_title_check'],
    unique_title: ['unique_title_title_idx'],
  })
  const ends = await database.query<{ source: string; reason: string }>(`
    select sources[1] as source, reason from fillrate.runs where state = 'failed' order by sources`)
  expect(ends).toEqual([
    { source: 'scalar', reason: 'scalar.inputs.email: a sub-select gives more than one row' },
    { source: 'twice', reason: 'twice.joins: more than one row' },
    {
      source: 'unreadable',
      reason: 'unreadable.inputs.email: invalid input syntax for type integer (22P02)',
    },
  ])
})

test('live sync, notifications, metrics and deliveries neither', async () => {
  for (const name of Object.keys(TABLES)) await cli.run('follow', 'install', name)
  const daemon = cli.startWith(
    { FILLRATE_DASHBOARD_TOKEN: 'anna:a-token-that-is-hard-to-guess' },
    'start',
    '--json',
  )
  try {
    let output = ''
    daemon.child.stdout?.on('data', (text: string) => (output += text))
    await expect.poll(() => output).toContain('"public_url"')
    const { listens } = JSON.parse(output.split('\n')[0] ?? '') as { listens: string }
    for (const name of Object.keys(TABLES))
      await database.query(`alter table crm.${name} disable trigger user; alter table crm.${name} enable trigger all;
                   insert into crm.${name} (key, email, note) values ('${KEY}4', '${ADDRESS}4@${hostOf(name)}', '${VALUE} note')`)
    const deliver = async (body: string): Promise<number> => {
      const headers = {
        'content-type': 'application/json',
        'x-webhook-signature': signWebhook(Buffer.from(body), SECRET),
      }
      return (await fetch(`${listens}/webhooks/enrichment`, { method: 'POST', body, headers })).status
    }
    await deliver(`{"event_id": "one", "results": ${VALUE}, "to": "${ADDRESS}1@plain.example"}`)
    await deliver(
      JSON.stringify({
        event_id: 'two',
        job_id: 'x',
        status: 'completed',
        results: `${VALUE} ${ADDRESS}1@plain.example`,
      }),
    )
    await deliver(
      JSON.stringify({
        event_id: 'three',
        job_id: 'x',
        status: KEY,
        results: [{ request_id: `${ADDRESS}1@plain.example`, data: { title: VALUE } }],
      }),
    )
    await expect.poll(() => database.query('select from fillrate.deliveries')).not.toEqual([])
    await expect.poll(() => database.query('select from fillrate.changed_rows')).toEqual([])
    await expect
      .poll(() => database.query(`select from fillrate.rows where key = '${KEY}4' and state <> 'waiting'`))
      .not.toHaveLength(0)
    const metrics = await fetch(`${listens}/metrics`, {
      headers: { authorization: 'Bearer a-token-that-is-hard-to-guess' },
    })
    const text = await metrics.text()
    expect(text).toContain('fillrate_')
    expect.soft(findIn(text.split('\n'))).toEqual([])
    await database.query('alter table crm.firms rename column site to page')
    await expect.poll(() => notified, { timeout: 30_000 }).not.toEqual([])
    await database.query('alter table crm.firms rename column page to site')
  } finally {
    daemon.child.kill('SIGTERM')
  }
  const lines = readLog((await daemon.ended).stderr)
  expect(lines.length).toBeGreaterThan(5)
  expect.soft(findIn(lines)).toEqual([])
  expect.soft(findIn(notified)).toEqual([])
  expect.soft(await findLeaks()).toEqual([])
})

test('undo and a retry neither, and after forget nothing is left', async () => {
  const runs = await database.query<{ id: number }>(
    `select distinct run_id as id from fillrate.changes order by 1`,
  )
  expect(runs.length).toBeGreaterThan(0)
  for (const { id } of runs) logged.push(...readLog((await cli.run('undo', String(id), '--yes')).stderr))
  logged.push(...readLog((await cli.run('retry')).stderr))
  expect.soft(findIn(logged)).toEqual([])
  expect.soft(await findLeaks()).toEqual([])
  const ended = await cli.run('forget', '--email', `${ADDRESS}1@raised.example`, '--yes')
  // One source cannot be read.
  expect(ended.stdout).toContain('not searched: unreadable')
  expect(findIn([...logged, ...readLog(ended.stderr)])).toEqual([])
  expect(await findMentions(`${ADDRESS}1@raised.example`)).toEqual([])
  // The others, as if they were one person.
  const emails = await database.query<{ key: string }>(
    `select key from fillrate.lookups where kind = 'email'`,
  )
  const targets = emails
    .map(({ key }) => parseForgetTarget('email', key))
    .filter((one) => typeof one !== 'string')
  const options = { dryRun: false, includeLinked: true }
  for (let from = 0; from < targets.length; from += 8)
    await forgetSubject(
      { db: database.db, log: pino({ level: 'silent' }) },
      targets.slice(from, from + 8),
      options,
    )
  await cli.run('forget', '--domain', `${ADDRESS}.example`, '--yes')
  expect.soft(await findMentions(ADDRESS)).toEqual([])
})
