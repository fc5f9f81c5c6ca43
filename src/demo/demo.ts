import pg from 'pg'
import { once } from 'node:events'
import { mkdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type CliCall, type Context, Exit, type ExitCode } from '../cli/command.ts'
import { Output } from '../cli/terminal.ts'
import { type Field, renderFields } from '../cli/views/layout.ts'
import { toVariablePart } from '../util/text.ts'
import { formatLimit } from '../domain/rate-status.ts'
import { formatCount, formatDuration, formatPercent, pluralize } from '../util/format.ts'
import { createCrm } from './crm.ts'
import { preparePostgres } from './postgres.ts'
import {
  DEMO_LIMIT,
  DEMO_SERVICE_NAMES,
  DEMO_SERVICES,
  DemoError,
  type DemoSettings,
  FULL_DEMO,
  demoConfig,
  startDemoService,
} from './settings.ts'
import { renderTable } from '../cli/views/table.ts'

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
    const prefix = `FILLRATE_${toVariablePart(name)}`
    variables[`${prefix}_BASE_URL`] = service.url
    variables[`${prefix}_API_KEY`] = service.keys.join(',')
    variables[`${prefix}_WEBHOOK_SECRET`] = service.webhookSecret
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
  const terms = dashboard === null ? afterDemo(env) : besideDemo(env, dashboard, examples[0]?.key ?? '1')
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

/** Whether it runs in a checkout: npm sets the name of the running script. */
const isCheckout = (env: NodeJS.ProcessEnv): boolean => env['npm_lifecycle_event'] === 'start'

function afterDemo(env: NodeJS.ProcessEnv): Field[] {
  const [again, program] = isCheckout(env)
    ? ['npm start --', 'npm run fillrate --']
    : ['npx fillrate demo', 'npx fillrate']
  return [
    [`${again} --keep`, 'again, and leave the database and a dashboard open'],
    [`${program} init`, 'with your own database (DATABASE_URL): propose a configuration'],
  ]
}

function besideDemo(env: NodeJS.ProcessEnv, dashboard: string, key: string): Field[] {
  const program = isCheckout(env) ? 'npx node ../src/main.ts' : 'npx fillrate'
  return [
    [dashboard, 'every run, row and reason'],
    [`cd ${STATE_FOLDER}`, 'in another terminal: its configuration, and the settings of these commands'],
    [`${program} run`, 'again: no lookup is repeated'],
    [`${program} explain contacts ${key}`, 'why a row is as it is'],
    [`${program} undo 1 --dry-run`, 'what an undo would give back'],
  ]
}

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
