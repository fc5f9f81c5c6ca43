import { basename } from 'node:path'
import type { Config } from '../../config/config.ts'
import { type Environment, readEnvironment } from '../../config/environment.ts'
import { type Finding, createFinding, toFinding } from '../check/finding.ts'
import {
  type Context,
  Exit,
  type Invocation,
  RECEIVER_VARIABLES,
  SERVICE_VARIABLES,
  createParser,
  defineCommand,
} from '../command.ts'
import { renderFinding, renderVerdict } from '../views/check.ts'
import { writeJson } from '../terminal.ts'
import { formatCount, pluralize } from '../../util/format.ts'
import { openLog, readConfig } from '../settings.ts'

export const checkCommand = defineCommand(
  createParser('check')
    .summary('verifies configuration, database, API access and webhook URL')
    .description(
      'Checks everything that a run needs, and says how to fix each problem. Changes nothing and makes no billable ' +
        'call.',
    ),
  {
    group: 'setup',
    examples: [
      ['fillrate check', ''],
      ['fillrate check --config staging.config.ts', ''],
    ],
    exits: [0, 2],
    environment: [...SERVICE_VARIABLES, ...RECEIVER_VARIABLES],

    async handler(invocation, context) {
      const { flags } = invocation
      const { stdout } = context
      const found: Finding[] = []
      for await (const one of runChecks(invocation, context)) {
        found.push(one)
        if (!flags.json) stdout.lines(renderFinding(one, stdout))
      }
      const wrong = found.some((one) => one.verdict === 'error')
      if (flags.json) writeJson(stdout, { ok: !wrong, checks: found })
      else stdout.lines(renderVerdict(found, stdout))
      return wrong ? Exit.usage : Exit.done
    },
  },
)

/** The checks, each after those that it depends on. */
async function* runChecks(invocation: Invocation, context: Context): AsyncGenerator<Finding> {
  const { env, now } = context
  let config: Config | null = null
  try {
    config = await readConfig(invocation, context)
    yield* checkConfig(config)
  } catch (error) {
    yield toFinding('configuration', error, env)
  }
  let environment: Environment
  try {
    environment = readEnvironment(env)
  } catch (error) {
    yield toFinding('environment', error, env)
    return
  }
  const { checkDatabase } = await import('../check/database.ts')
  const { checkApiKey, checkService } = await import('../check/service.ts')
  const { checkBulkSetup } = await import('../check/bulk.ts')
  const { compareClocks } = await import('../check/clock.ts')
  const inDatabase = yield* checkDatabase(environment, config, { env, now })
  const inService = yield* checkService(environment, now)
  yield checkApiKey(environment)
  yield await checkBulkSetup(environment, await openLog(invocation, context, environment))
  yield compareClocks([inDatabase, inService].filter((reading) => reading !== null))
}

function* checkConfig(config: Config): Generator<Finding> {
  const { budget, path } = config
  const sources = pluralize(Object.keys(config.sources).length, 'source')
  yield createFinding('configuration', 'ok', `${path === null ? 'from code' : basename(path)}, ${sources}`)
  if (budget === null)
    yield createFinding('budget', 'warning', 'none', {
      todo: 'Every run requires --budget. To set a default, add `budget` to the configuration.',
    })
  else
    yield createFinding(
      'budget',
      'ok',
      budget === 'unlimited' ? 'unlimited' : `${formatCount(budget)} lookups a run`,
    )
}
