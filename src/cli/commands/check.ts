import { basename } from 'node:path'
import type { Config } from '../../config/config.ts'
import { readEnvironment, type Environment } from '../../config/environment.ts'
import { finding, findingOf, type Finding } from '../check/finding.ts'
import { defineCommand, parser, type Invocation } from '../command.ts'
import type { Context } from '../context.ts'
import { RECEIVER, SERVICE } from '../environment-help.ts'
import { Exit } from '../exit-codes.ts'
import { findingLines, verdictLine } from '../render/check.ts'
import { writeJson } from '../render/json.ts'
import { formatCount, pluralize } from '../../util/format.ts'
import { openLog, readConfig } from '../settings.ts'

export const check = defineCommand(
  parser('check')
    .summary('configuration, database and service, each with what to do about it')
    .description(
      'Looks at everything that a run needs, and says of each thing that is wrong what to do. Changes nothing, and costs nothing.',
    ),
  {
    group: 'first',
    examples: [
      ['fillrate check', ''],
      ['fillrate check --config staging.config.ts', ''],
    ],
    exits: [0, 2],
    environment: [...SERVICE, ...RECEIVER],

    async handler(invocation, context) {
      const { flags } = invocation
      const { stdout } = context
      const found: Finding[] = []
      for await (const one of findings(invocation, context)) {
        found.push(one)
        if (!flags.json) for (const line of findingLines(one, stdout)) stdout.line(line)
      }
      const wrong = found.some((one) => one.verdict === 'error')
      if (flags.json) writeJson(stdout, { ok: !wrong, checks: found })
      else for (const line of verdictLine(found, stdout)) stdout.line(line)
      return wrong ? Exit.usage : Exit.done
    },
  },
)

/** In the order in which one thing needs another. */
async function* findings(invocation: Invocation, context: Context): AsyncGenerator<Finding> {
  const { env, now } = context
  let config: Config | null = null
  try {
    config = await readConfig(invocation, context)
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
  const { checkDatabase } = await import('../check/database.ts')
  const { checkKey, checkService } = await import('../check/service.ts')
  const { checkBulk } = await import('../check/bulk.ts')
  const { judgeClocks } = await import('../check/clock.ts')
  const inDatabase = yield* checkDatabase(environment, config, { env, now })
  const inService = yield* checkService(environment, now)
  yield checkKey(environment)
  yield await checkBulk(environment, openLog(invocation, context, environment))
  yield judgeClocks([inDatabase, inService].filter((reading) => reading !== null))
}

function* aboutConfig(config: Config): Generator<Finding> {
  const { budget, path } = config
  const sources = pluralize(Object.keys(config.sources).length, 'source')
  yield finding('configuration', 'ok', `${path === null ? 'from code' : basename(path)}, ${sources}`)
  if (budget === null)
    yield finding('budget', 'warning', 'none', {
      todo: 'Every run must be given --budget. To have a default, set `budget` in the configuration.',
    })
  else
    yield finding(
      'budget',
      'ok',
      budget === 'unlimited' ? 'unlimited' : `${formatCount(budget)} lookups a run`,
    )
}
