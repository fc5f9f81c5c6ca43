import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Context, Exit, type ExitCode, type Invocation } from '../cli/command.ts'
import { writeJson } from '../cli/terminal.ts'
import { formatDuration } from '../util/format.ts'
import { ProgressView } from '../cli/views/progress.ts'
import { renderPlan } from '../cli/views/plan.ts'
import { demoCommands, demoNextStepLines } from './views/next-steps.ts'
import { showFaults, showInterrupted, showKept, showResults } from './views/sections.ts'
import { DEMO_SERVICE_NAMES, type DemoSettings, FULL_DEMO } from './settings.ts'
import { Presenter } from './presenter.ts'
import { type DemoResult, planDemo, runDemo } from './script.ts'
import { type DemoEnvironment, STATE_FOLDER, withDemoEnvironment } from './environment.ts'
import type { Plan } from '../actions/plan/plan.ts'

/**
 * Shows the whole workflow with real parts: Postgres, a CRM, the service, a plan, a run, and its results.
 * @throws DemoError if it cannot run on this machine
 */
export async function showDemo(
  { flags }: { readonly flags: Invocation['flags'] & { readonly keep: boolean } },
  context: Context,
  settings: DemoSettings = FULL_DEMO,
): Promise<ExitCode> {
  const { stdout, stderr, signal, env } = context
  const began = performance.now()
  const typed = demoCommands(env)
  const presenter = new Presenter(stdout, { silent: flags.json })
  presenter.title('Fillrate', 'demo with real components and made-up people; nothing leaves this machine')
  return withDemoEnvironment(
    presenter,
    context,
    { logLevel: flags.logLevel ?? 'warn', settings },
    async (world) => {
      const dashboard = flags.keep ? await openDashboard(presenter, world, signal) : null
      showFaults(presenter, world.services.acme.settings)
      const plan = await planDemo(world, signal)
      presenter.section(
        'What a run would request',
        'fillrate plan',
        renderPlan(plan, stdout, { budget: 'unlimited', maxReasons: MAX_REASONS }),
      )
      signal.throwIfAborted()

      presenter.section('The run', 'fillrate run', [])
      if (stderr.isTTY) presenter.text('Ctrl-C stops it and saves its state.\n')
      const view = new ProgressView(stderr)
      const story = await runDemo(world, {
        signal,
        onProgress: (progress) => view.showRun(progress),
      }).finally(() => view.end())
      if (story.run.status === 'interrupted') showInterrupted(presenter, story, typed)
      else {
        showResults(presenter, story, typed)
        if (dashboard === null)
          presenter.section('Next steps', null, demoNextStepLines(typed, listCreatedFolders(world), stdout))
      }
      const took = performance.now() - began
      if (story.run.status !== 'interrupted')
        presenter.lines(['', stdout.paint('quiet', `The whole demo took ${formatDuration(took)}.`)])
      if (flags.json)
        writeJson(stdout, {
          ...toDemoJson(world, settings, { plan, story }, took),
          ...(dashboard !== null && { kept: { dashboard: dashboard.url, ...world.variables } }),
        })
      if (dashboard !== null && !signal.aborted) {
        const folder = await writeTryFolder(world)
        showKept(presenter, typed, { ...world, dashboard: dashboard.url, folder })
        await once(signal, 'abort')
        presenter.lines([
          '',
          `  Stopped. The data stay in ${listCreatedFolders(world).join(' and ')}; ${typed.again} goes on with them.`,
        ])
      }
      await dashboard?.closed
      return demoExitCode(story)
    },
  )
}

/** Reasons for invalid inputs that the plan names, per source. */
const MAX_REASONS = 4

/** Writes the settings of the demo into a folder of their own: commands in it work on the demo, and on nothing else. */
async function writeTryFolder({ state, variables }: DemoEnvironment): Promise<string> {
  await mkdir(join(state, TRY_FOLDER), { recursive: true })
  const lines = Object.entries(variables).map(([name, value]) => `${name}='${value}'\n`)
  await writeFile(join(state, TRY_FOLDER, '.env'), lines.join(''), { mode: 0o600 })
  return `${STATE_FOLDER}/${TRY_FOLDER}`
}

const TRY_FOLDER = 'try'

/** Serves the dashboard on any free port until the signal, so that it is in the way of no other demo. */
async function openDashboard(
  presenter: Presenter,
  { app }: DemoEnvironment,
  signal: AbortSignal,
): Promise<{ readonly url: string; readonly closed: Promise<void> }> {
  let closed = Promise.resolve()
  const url = await presenter.step(
    'starting the dashboard',
    () =>
      new Promise<string>((resolve, reject) => {
        closed = app.serve({ signal, onListening: (listens) => resolve(listens ?? '') })
        closed.catch(reject)
      }),
    (listens) => `The dashboard, on ${listens}: open it now to watch the run`,
  )
  return { url, closed }
}

/** The folders that the demo created: its own, and the data folder if that is elsewhere. */
const listCreatedFolders = ({ state, postgres }: DemoEnvironment): string[] =>
  postgres.home.startsWith(state) ? [STATE_FOLDER] : [STATE_FOLDER, postgres.home]

/** Rows without a match and rejected writes are expected, so they do not fail the demo. Pure. */
export function demoExitCode({ run, manualValues }: Pick<DemoResult, 'run' | 'manualValues'>): ExitCode {
  if (run.status === 'interrupted') return Exit.interrupted
  return run.status === 'completed' && manualValues.changed === 0 ? Exit.done : Exit.failed
}

/** The demo as JSON. */
function toDemoJson(
  world: DemoEnvironment,
  size: DemoSettings,
  results: { readonly plan: Plan; readonly story: DemoResult },
  durationMs: number,
): object {
  const { fillRates, run, status, deliveries, services, manualValues, examples } = results.story
  return {
    status: run.status,
    crm: { accounts: size.accounts, contacts: size.contacts, made_now: world.isNewCrm },
    plan: results.plan,
    run,
    fill_rate: Object.fromEntries(
      fillRates.map(({ source, eligible, columns }) => [
        source,
        {
          eligible: eligible.after,
          columns: Object.fromEntries(
            columns.map(({ column, before, after, afterEach }) => [
              column,
              {
                before,
                after,
                after_each: Object.fromEntries(afterEach.map(({ service, filled }) => [service, filled])),
              },
            ]),
          ),
        },
      ]),
    ),
    rows: status.rows,
    deliveries: { taken: deliveries, states: status.deliveries },
    services: Object.fromEntries(
      DEMO_SERVICE_NAMES.map((name) => {
        const { limit, windowMs, faults } = world.services[name].settings
        const counts = { ...services[name], windows: services[name].windows.length }
        return [name, { limit, window_ms: windowMs, faults, counts }]
      }),
    ),
    manual_values: manualValues,
    examples,
    duration_ms: Math.round(durationMs),
  }
}
