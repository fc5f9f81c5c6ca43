import type { Invocation } from '../command.ts'
import type { Context } from '../context.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { writeJson } from '../render/json.ts'
import { duration } from '../../domain/numbers.ts'
import { ProgressView } from '../render/progress.ts'
import { demoJson } from './json.ts'
import { typedAs } from './screen/next.ts'
import {
  tellFaults,
  tellFilled,
  tellInterrupted,
  tellNext,
  tellPlan,
  tellRun,
  tellService,
  tellTyped,
} from './screen/sections.ts'
import { FULL, type DemoSettings } from './settings.ts'
import { Stage } from './screen/stage.ts'
import { makePlan, makeRun, type Story } from './story.ts'
import { inWorld, STATE, type World } from './world.ts'

/**
 * The whole way on real parts: a Postgres, a CRM, the service, a plan, a run, and what came of it.
 * @throws DemoProblem where it can't be shown on this machine
 */
export async function showDemo(
  { flags }: Pick<Invocation, 'flags'>,
  context: Context,
  settings: DemoSettings = FULL,
): Promise<ExitCode> {
  const { stdout, stderr, signal, env } = context
  const began = performance.now()
  const typed = typedAs(env)
  const stage = new Stage(stdout, { silent: flags.json })
  stage.title('Fillrate', 'a demo: real parts, made-up people, nothing leaves this machine')
  return inWorld(stage, context, { logLevel: flags.logLevel ?? 'warn', settings }, async (world) => {
    tellFaults(stage, world.service.settings)
    const plan = await makePlan(world, signal)
    tellPlan(stage, plan)
    signal.throwIfAborted()

    stage.heading('The run', 'fillrate run')
    if (stderr.isTTY) stage.text('Ctrl-C ends it with its state saved.\n')
    const view = new ProgressView(stderr)
    const story = await makeRun(world, {
      signal,
      onProgress: (progress) => view.update(progress),
    }).finally(() => view.end())
    if (story.run.status === 'interrupted') tellInterrupted(stage, story, typed)
    else {
      tellRun(stage, story, typed)
      tellFilled(stage, story)
      tellService(stage, story)
      tellTyped(stage, story)
      tellNext(stage, typed, foldersOf(world))
    }
    const took = performance.now() - began
    if (story.run.status !== 'interrupted')
      stage.lines(['', stdout.paint('quiet', `The whole demo took ${duration(took)}.`)])
    if (flags.json) writeJson(stdout, demoJson(world, settings, { plan, story }, took))
    return exitCodeOf(story)
  })
}

/** What was made: the state in the working folder, and the data where they had to go elsewhere. */
const foldersOf = ({ state, postgres }: World): string[] =>
  postgres.home.startsWith(state) ? [STATE] : [STATE, postgres.home]

/** Rows that the service does not know or that could not be written are part of what is shown. Pure. */
export function exitCodeOf({ run, typedValues }: Pick<Story, 'run' | 'typedValues'>): ExitCode {
  if (run.status === 'interrupted') return Exit.interrupted
  return run.status === 'completed' && typedValues.changed === 0 ? Exit.done : Exit.failed
}
