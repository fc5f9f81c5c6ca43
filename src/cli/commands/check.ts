import { basename } from 'node:path'
import type { Config } from '../../config/config.ts'
import { readEnvironment, type Environment } from '../../config/environment.ts'
import { checkBulk } from '../check/bulk.ts'
import { judgeClocks } from '../check/clock.ts'
import { checkDatabase } from '../check/database.ts'
import { finding, findingOf, type Finding } from '../check/finding.ts'
import { checkKey, checkService } from '../check/service.ts'
import type { Command } from '../command.ts'
import type { Context } from '../context.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { findingLines, verdictLine } from '../render/check.ts'
import { writeJson } from '../render/json.ts'
import { count, counted } from '../../domain/numbers.ts'
import { openLog, readConfig } from '../settings.ts'

/** Looks at everything that a run needs, in the order in which one thing needs another. */
export async function check(command: Command<'check'>, context: Context): Promise<ExitCode> {
  const { stdout } = context
  const found: Finding[] = []
  for await (const one of findings(command, context)) {
    found.push(one)
    if (!command.flags.json) for (const line of findingLines(one, stdout)) stdout.line(line)
  }
  const wrong = found.some((one) => one.verdict === 'error')
  if (command.flags.json) writeJson(stdout, { ok: !wrong, checks: found })
  else for (const line of verdictLine(found, stdout)) stdout.line(line)
  return wrong ? Exit.usage : Exit.done
}

async function* findings(command: Command<'check'>, context: Context): AsyncGenerator<Finding> {
  const { env, now } = context
  let config: Config | null = null
  try {
    config = await readConfig(command, context)
    yield* aboutConfig(config)
  } catch (error) {
    yield findingOf('configuration', error, env)
  }
  let environment: Environment
  try {
    environment = readEnvironment(env)
  } catch (error) {
    yield findingOf('environment', error, env)
    return
  }
  const inDatabase = yield* checkDatabase(environment, config, { env, now })
  const inService = yield* checkService(environment, now)
  yield checkKey(environment)
  yield await checkBulk(environment, openLog(command, context, environment))
  yield judgeClocks([inDatabase, inService].filter((reading) => reading !== null))
}

function* aboutConfig(config: Config): Generator<Finding> {
  const { budget, path } = config
  const sources = counted(Object.keys(config.sources).length, 'source')
  yield finding('configuration', 'ok', `${path === null ? 'from code' : basename(path)}, ${sources}`)
  if (budget === null)
    yield finding('budget', 'warning', 'none', {
      todo: 'Every run must be given --budget. To have a default, set `budget` in the configuration.',
    })
  else yield finding('budget', 'ok', budget === 'unlimited' ? 'unlimited' : `${count(budget)} lookups a run`)
}
