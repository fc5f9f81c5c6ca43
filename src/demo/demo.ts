import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, realpath, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { type CliCall, type Context, Exit, type ExitCode } from '../cli/command.ts'
import { Output } from '../cli/terminal.ts'
import { renderTerms, renderText, type Terms } from '../cli/views/layout.ts'
import { toVariablePart } from '../config/environment.ts'
import { formatLimit } from '../domain/rate-status.ts'
import type { Sandbox } from '../sandbox/server.ts'
import { toServiceAddress } from '../service/dispatcher.ts'
import { migrate } from '../store/migrate.ts'
import { openDatabase } from '../store/open.ts'
import { moveService } from '../store/services.ts'
import { formatCount, formatDuration, formatPercent, pluralize } from '../util/format.ts'
import { createCrm } from './crm.ts'
import { listExamples, renderExamples, saveContacts } from './examples.ts'
import { DEMO_APPLICATION, canOthersEnter, freePort, openPostgres } from './postgres.ts'
import {
  DEMO_SERVICE_NAMES,
  DEMO_SERVICES,
  DemoError,
  type DemoSettings,
  FULL_DEMO,
  demoConfig,
  startDemoService,
} from './settings.ts'

/** The demo's folder, in the working directory. */
const STATE_FOLDER = '.fillrate'

/** How long the run may take to save its state after a Ctrl-C, which stops Postgres at the same moment, in milliseconds. */
const SAVING_MS = 3_000

type DemoCall = Context & Pick<CliCall, 'runCommand'>

/**
 * Shows the whole workflow with real parts: Postgres, a CRM, two services, and the commands `plan`, `run` and `status`, run
 * in the demo's folder as a user would run them there.
 * @throws DemoError if it cannot run on this machine
 */
export async function showDemo(
  call: DemoCall,
  { keep }: { readonly keep: boolean },
  settings: DemoSettings = FULL_DEMO,
): Promise<ExitCode> {
  const { cwd, env, signal, stdout } = call
  const began = performance.now()
  const ending: (() => Promise<unknown>)[] = []
  try {
    const state = await createFolder(join(cwd, STATE_FOLDER))
    const home = await chooseHome(state)
    stdout.lines([`${stdout.paint('heading', 'The demo')}  made-up people; nothing leaves this machine`, ''])
    const postgres = await openPostgres(home)
    ending.push(() => postgres.stop())
    step(stdout, `a Postgres, its data in ${home.startsWith(state) ? STATE_FOLDER : home}`)

    const client = new pg.Client({ connectionString: postgres.url, application_name: DEMO_APPLICATION })
    client.on('error', () => {})
    await client.connect()
    ending.push(() => client.end())
    const isNew = await createCrm(client, settings)
    const size = `${pluralize(settings.accounts, 'company', 'companies')} and ${formatCount(settings.contacts)} people`
    step(stdout, isNew ? `a CRM of ${size}, as untidy as real ones` : 'the CRM of the last demo')

    const services = await startServices(postgres.url, settings, ending)
    for (const name of DEMO_SERVICE_NAMES) {
      const { knows, lookup } = DEMO_SERVICES[name]
      const limit = formatLimit(settings.limit, 2_000)
      step(
        stdout,
        `a service, ${name}: knows ${formatPercent(knows)} of all, EUR ${lookup.toFixed(2)} a lookup, ${limit}`,
      )
    }
    const variables = { DATABASE_URL: postgres.url, ...listVariables(services) }
    await writeSettings(state, settings, variables)
    // Silent: a Ctrl-C ends Postgres, too, and the run would log that it is away.
    const settled = { ...withoutSettings(env), ...variables, LOG_LEVEL: 'silent' }
    const context = { ...call, cwd: state, env: settled }
    const dashboard = keep ? await serveDashboard(call, context, ending) : null
    if (dashboard !== null) step(stdout, `the dashboard: ${dashboard}`)

    await saveContacts(client)
    for (const service of Object.values(services)) service.reset()
    const command = (...words: string[]): Promise<ExitCode> => showCommand(call, context, words)
    const planned = await command('plan')
    if (planned !== Exit.done) return planned
    const ran = await Promise.race([command('run'), interrupted(signal)])
    if (ran === Exit.interrupted) {
      call.stderr.live([])
      stdout.lines(['', ...renderText(stdout, 'Stopped. The next demo goes on where this one was.')])
      return ran
    }
    const shown = await command('status')
    // That some rows are not found, or cannot be written, belongs to the demo.
    if (![Exit.done, Exit.open].some((code) => code === ran) || shown !== Exit.done) return Exit.failed

    const examples = await listExamples(client)
    stdout.lines(renderExamples(stdout, examples))
    const calls = Object.values(services).reduce((sum, one) => sum + one.stats().calls.accepted, 0)
    if (calls === 0) stdout.lines(['', 'No lookup was repeated: the services got no call.'])
    const typed = nameCommands(env)
    const folders = home.startsWith(state) ? STATE_FOLDER : `${STATE_FOLDER} ${home}`
    const key = examples[0]?.key ?? '1'
    heading(stdout, `Done in ${formatDuration(performance.now() - began)}. What next`)
    const terms = dashboard === null ? afterDemo(typed, folders) : besideDemo(typed, dashboard, key)
    stdout.lines(renderTerms(stdout, terms, { style: 'type', maxColumns: 46 }))
    if (dashboard !== null && !signal.aborted) {
      stdout.lines(['', 'Ctrl-C stops it.'])
      await once(signal, 'abort')
    }
    return Exit.done
  } finally {
    // In reverse order; a failure does not keep the others from stopping.
    for (const end of ending.toReversed()) await end().catch(() => {})
  }
}

async function createFolder(path: string): Promise<string> {
  await mkdir(path, { recursive: true })
  return realpath(path)
}

/** The folder of Postgres, which runs as the user `postgres` where the demo is root: often that may not enter root's folders. */
async function chooseHome(state: string): Promise<string> {
  if (process.getuid?.() !== 0 || (await canOthersEnter(join(state, 'data')))) return state
  const name = `fillrate-demo-${createHash('sha256').update(state).digest('hex').slice(0, 8)}`
  const home = await createFolder(join(tmpdir(), name))
  if ((await stat(home)).uid !== 0)
    throw new DemoError(
      `${home} belongs to another user. Remove it, or run the demo in a folder that others can enter.`,
    )
  return home
}

type DemoServices = Awaited<ReturnType<typeof startServices>>

/** Starts the services, and treats each as that of the last demo, whatever its port, so that stored answers count. */
async function startServices(
  url: string,
  settings: DemoSettings,
  ending: (() => Promise<unknown>)[],
): Promise<Readonly<Record<(typeof DEMO_SERVICE_NAMES)[number], Sandbox>>> {
  const [acme, beta] = [await startDemoService(settings, 'acme'), await startDemoService(settings, 'beta')]
  ending.push(acme.close, beta.close)
  const db = openDatabase({ url, max: 1 })
  try {
    await migrate(db)
    await moveService(db, 'acme', toServiceAddress(acme.url))
    await moveService(db, 'beta', toServiceAddress(beta.url))
  } finally {
    await db.destroy()
  }
  return { acme, beta }
}

/** The address and the secrets of each service. */
const listVariables = (services: DemoServices): Readonly<Record<string, string>> =>
  Object.fromEntries(
    DEMO_SERVICE_NAMES.flatMap((name) => {
      const { url, keys, webhookSecret } = services[name]
      const prefix = `FILLRATE_${toVariablePart(name)}`
      return [
        [`${prefix}_BASE_URL`, url],
        [`${prefix}_API_KEY`, keys.join(',')],
        [`${prefix}_WEBHOOK_SECRET`, webhookSecret],
      ]
    }),
  )

/** Only the demo's own settings: never the user's database or service. */
const withoutSettings = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !/^(?:DATABASE_URL$|FILLRATE_|PG)/.test(name)))

/** Commands in the demo's folder work on the demo, and on nothing else. */
async function writeSettings(
  state: string,
  settings: DemoSettings,
  variables: Readonly<Record<string, string>>,
): Promise<void> {
  const lines = Object.entries(variables).map(([name, value]) => `${name}='${value}'\n`)
  await writeFile(join(state, '.env'), lines.join(''), { mode: 0o600 })
  await writeFile(join(state, 'fillrate.config.json'), `${JSON.stringify(demoConfig(settings), null, 2)}\n`)
}

/** Runs `serve` beside the demo. @returns the address of the dashboard, once it answers */
async function serveDashboard(
  { runCommand }: DemoCall,
  context: Context,
  ending: (() => Promise<unknown>)[],
): Promise<string> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}/`
  const silent = new Output({ write: () => {} }, { color: false })
  const stop = new AbortController()
  context.signal.addEventListener('abort', () => stop.abort())
  const serving = runCommand(['serve', '--port', String(port)], {
    ...context,
    stdout: silent,
    signal: stop.signal,
  })
  ending.push(() => (stop.abort(), serving))
  for (let isUp = false; !isUp; isUp = (await fetch(`${url}healthz`).catch(() => null)) !== null)
    if ((await Promise.race([serving, new Promise((resolve) => setTimeout(resolve, 100))])) !== undefined)
      throw new DemoError('The dashboard could not be started.')
  return url
}

function showCommand(
  { stdout, runCommand }: DemoCall,
  context: Context,
  words: readonly string[],
): Promise<ExitCode> {
  heading(stdout, `$ fillrate ${words.join(' ')}`)
  return runCommand(words, context)
}

async function interrupted(signal: AbortSignal): Promise<ExitCode> {
  if (!signal.aborted) await once(signal, 'abort')
  await new Promise((resolve) => setTimeout(resolve, SAVING_MS).unref())
  return Exit.interrupted
}

const step = (stdout: Output, text: string): void => stdout.line(`  ${stdout.paint('good', '✓')} ${text}`)

const heading = (stdout: Output, text: string): void =>
  stdout.lines(['', stdout.paint('heading', text), stdout.paint('quiet', '─'.repeat(stdout.textColumns)), ''])

interface TypedCommands {
  readonly demo: string
  /** In the folder of the project. */
  readonly here: (words: string) => string
  /** In the demo's folder. */
  readonly inState: (words: string) => string
}

/** The commands as they are typed in this installation. @param env npm sets the name of the running script in it */
function nameCommands(env: NodeJS.ProcessEnv): TypedCommands {
  const isCheckout = env['npm_lifecycle_event'] === 'start' || env['npm_lifecycle_event'] === 'fillrate'
  return isCheckout
    ? {
        demo: 'npm start',
        here: (words) => `npm run fillrate -- ${words}`,
        inState: (words) => `npx node ../src/main.ts ${words}`,
      }
    : {
        demo: 'npx fillrate demo',
        here: (words) => `npx fillrate ${words}`,
        inState: (words) => `npx fillrate ${words}`,
      }
}

const afterDemo = ({ demo, here }: TypedCommands, folders: string): Terms => [
  [demo, 'again: no lookup is repeated'],
  [`${demo}${demo.startsWith('npm ') ? ' --' : ''} --keep`, 'and leave the database and a dashboard open'],
  [`rm -rf ${folders}`, 'remove everything'],
  [here('init'), 'with your own database (DATABASE_URL): propose a configuration'],
]

const besideDemo = ({ inState }: TypedCommands, dashboard: string, key: string): Terms => [
  [dashboard, 'every run, row and reason'],
  [`cd ${STATE_FOLDER}`, 'in another terminal: its configuration, and the settings of these commands'],
  [inState(`explain contacts ${key}`), 'why a row is as it is'],
  [inState('failures'), 'rows that were not enriched, with the reasons'],
  [inState('undo 1 --dry-run'), 'what an undo would give back'],
]
