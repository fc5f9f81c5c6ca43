import { basename } from 'node:path'
import type { Config } from '../../config/config.ts'
import { type Environment, readEnvironment } from '../../config/environment.ts'
import { ConfigProblems, formatProblems } from '../../config/problems.ts'
import { BUILT_IN_SERVICE } from '../../domain/service/built-in.ts'
import {
  type Finding,
  createFailedFinding,
  createFinding,
  toFinding,
  type CheckedProblem,
  type FindingVerdict,
} from '../check/finding.ts'
import { readServiceEnvironment } from '../../config/service-environment.ts'
import {
  type CliCallOf,
  Exit,
  RECEIVER_VARIABLES,
  SERVICE_VARIABLES,
  UsageError,
  createParser,
  defineCommand,
} from '../command.ts'
import { formatCount, formatMoney, pluralize } from '../../util/format.ts'
import { openLog, readConfig } from '../settings.ts'
import { type Output, type TextStyle, padText, wrapText } from '../terminal.ts'
import { placeBeside } from '../views/layout.ts'
import { sanitize } from '../../util/text.ts'

const checkParser = createParser('check')
  .summary('verifies configuration, database, API access and webhook URL')
  .description(
    'Checks everything that a run needs, and says how to fix each problem. Changes nothing and makes no billable ' +
      'call, unless --call is given.',
  )
  .option('--service', 'also shows what each endpoint of the service would be sent; sends nothing')
  .option(
    '--call <INPUT...>',
    'makes one lookup, which may be billed, and shows how its answer is understood: email=…, linkedin_url=…, domain=…, or name=… company=…',
  )

export const checkCommand = defineCommand(checkParser, {
  group: 'setup',
  examples: [
    ['fillrate check', ''],
    ['fillrate check --config staging.config.ts', ''],
    ['fillrate check --service', 'and what would be sent to the service'],
    ['fillrate check --service --call email=ada@example.com', 'and one lookup, which may be billed'],
  ],
  exits: [0, 2],
  environment: [...SERVICE_VARIABLES, ...RECEIVER_VARIABLES],

  async handler(call) {
    const { flags, stdout } = call
    const checks: Finding[] = []
    for await (const one of runChecks(call)) {
      checks.push(one)
      if (!flags.json) stdout.lines(renderFinding(one, stdout))
    }
    const ok = checks.every((one) => one.verdict !== 'error')
    return {
      json: { ok, checks },
      text: () => renderVerdict(checks, stdout),
      exit: ok ? Exit.done : Exit.usage,
    }
  },
})

/** The checks, each after the checks that it depends on. An invalid part does not keep the valid ones from being checked. */
async function* runChecks(call: CliCallOf<typeof checkParser>): AsyncGenerator<Finding> {
  const { env, now, flags } = call
  const { describeRequests, makeOneCall, parseCallInput } = await import('../check/service-requests.ts')
  const callInput = flags.call ? parseCallInput(flags.call) : null
  if (flags.call && callInput === null)
    throw new UsageError(
      call.command,
      '--call needs an input: email=…, linkedin_url=…, domain=…, or name=… company=…',
    )
  let config: Config | null = null
  let hasInvalidService = false
  try {
    config = await readConfig(call)
    yield* checkConfig(config)
  } catch (error) {
    yield toFinding('configuration', error, env)
    const { InvalidConfig } = await import('../../config/parse.ts')
    if (error instanceof InvalidConfig) config = error.usable
    hasInvalidService = error instanceof InvalidConfig && error.hasInvalidService
  }
  const service = config?.adapter ?? BUILT_IN_SERVICE
  const { environment, invalid } = readValidEnvironment(env)
  if (invalid !== null) yield toFinding('environment', invalid, env)
  /** A check that needs a variable which is invalid says only so. */
  const needs = (name: string, ...variables: string[]): Finding | null => {
    const wrong = invalid?.problems.find(({ place }) => variables.includes(place))
    return wrong === undefined ? null : createFinding(name, 'skipped', `${wrong.place} is invalid`)
  }
  const { checkDatabase } = await import('../check/database.ts')
  const { checkApiKey, checkService, createRateFinding } = await import('../check/service.ts')
  const { checkBulkSetup, describeUnsigned } = await import('../check/bulk.ts')
  const { describeCertificate } = await import('../check/client.ts')
  const { checkDescribed } = await import('../check/cases.ts')
  const { compareClocks } = await import('../check/clock.ts')
  const withoutDatabase = needs('database', 'DATABASE_URL')
  if (withoutDatabase !== null) yield withoutDatabase
  const inDatabase =
    withoutDatabase === null
      ? yield* checkDatabase(environment, config, { env, now, hasInvalidService })
      : null
  const withoutService = needs(
    'service',
    'FILLRATE_BASE_URL',
    'HTTP_PROXY',
    'HTTPS_PROXY',
    ...CERTIFICATE_VARIABLES,
  )
  if (withoutService !== null) yield withoutService
  const inService = withoutService === null ? yield* checkService(environment, now) : null
  if (hasInvalidService)
    for (const name of ['key', 'bulk']) yield createFinding(name, 'skipped', 'the service has mistakes')
  else {
    const { problems } = readServiceEnvironment(service, environment)
    if (problems.length > 0) yield createFailedFinding('environment', ...problems)
    yield (
      needs('key', 'FILLRATE_API_KEY', 'FILLRATE_AUTH') ??
        (problems.length > 0
          ? createFinding('key', 'skipped', 'the environment lacks what the service needs')
          : await checkApiKey(environment, service))
    )
    if (environment.clientCertificate !== null)
      yield describeCertificate(environment.clientCertificate, now())
    if (service !== BUILT_IN_SERVICE) yield await checkDescribed(service, environment, await readCases(call))
    if (service.rateLimits.length > 0) yield createRateFinding(service.rateLimits)
    yield (
      needs('bulk', ...RECEIVER_VARIABLES, 'FILLRATE_BASE_URL') ??
        (await checkBulkSetup(environment, service, await openLog(call, environment)))
    )
    const unsigned = describeUnsigned(environment, service)
    if (unsigned !== null) yield unsigned
    if (flags.service) yield* describeRequests(service, environment)
    if (callInput !== null) yield* makeOneCall(service, environment, callInput)
  }
  yield compareClocks([inDatabase, inService].filter((reading) => reading !== null))
}

const CERTIFICATE_VARIABLES = ['FILLRATE_CLIENT_CERT', 'FILLRATE_CLIENT_KEY'] as const

/** The cases of the module that the configuration names as its service. */
async function readCases({ cwd, flags }: CliCallOf<typeof checkParser>): Promise<readonly unknown[]> {
  const { findServiceModules, loadServiceCases } = await import('../../config/load.ts')
  const paths = await findServiceModules({ cwd, ...(flags.config !== null && { path: flags.config }) })
  const path = paths.get(null)
  return path === undefined ? [] : loadServiceCases(path)
}

/** The environment without its invalid variables, which are reported beside. */
function readValidEnvironment(env: NodeJS.ProcessEnv): {
  readonly environment: Environment
  readonly invalid: ConfigProblems | null
} {
  try {
    return { environment: readEnvironment(env), invalid: null }
  } catch (error) {
    if (!(error instanceof ConfigProblems)) throw error
    const wrong = new Set(error.problems.flatMap(({ place }) => [place, place.toLowerCase()]))
    // One of them alone is a mistake, too.
    if (CERTIFICATE_VARIABLES.some((name) => wrong.has(name)))
      for (const name of CERTIFICATE_VARIABLES) wrong.add(name)
    const valid = Object.entries(env).filter(([name]) => !wrong.has(name))
    return { environment: readEnvironment(Object.fromEntries(valid)), invalid: error }
  }
}

function* checkConfig(config: Config): Generator<Finding> {
  const { budget, path } = config
  const sources = pluralize(Object.keys(config.sources).length, 'source')
  yield createFinding('configuration', 'ok', `${path === null ? 'from code' : basename(path)}, ${sources}`)
  if (budget === null)
    yield createFinding('budget', 'warning', 'none', {
      todo: 'Every run requires --budget. To set a default, add `budget` to the configuration.',
    })
  else {
    const unit = config.adapter.credits.isFlat ? 'lookups' : 'credits'
    const text =
      budget === 'unlimited'
        ? budget
        : typeof budget === 'object'
          ? `${formatMoney(budget)} a run`
          : `${formatCount(budget)} ${unit} a run`
    yield createFinding('budget', 'ok', text)
  }
}

const SIGNS: Readonly<Record<FindingVerdict, readonly [sign: string, style: TextStyle]>> = {
  ok: ['✓', 'good'],
  warning: ['!', 'warn'],
  error: ['✗', 'bad'],
  skipped: ['-', 'quiet'],
}

const NAME_COLUMNS = 16

/** One finding as a line, `✓ database  Postgres 18.1, app@localhost/crm`, with the fix below. */
export function renderFinding(finding: Finding, output: Output): string[] {
  const { paint, textColumns } = output
  const [sign, style] = SIGNS[finding.verdict]
  const name = sanitize(finding.name)
  const start = `${paint(style, sign)} ${padText(name, NAME_COLUMNS)}  `
  const room = Math.max(20, textColumns - NAME_COLUMNS - 4)
  const shown = selectShown(finding)
  const todo = (finding.todo ?? '').split('\n').flatMap((line) => wrapText(line, room))
  const lines = [...wrapText(sanitize(finding.text), room), ...todo.filter((line) => line !== '')]
  // The text of a longer name is printed below it.
  const isBeside = name.length <= NAME_COLUMNS
  return [
    ...(isBeside
      ? placeBeside(start, lines)
      : [start.trimEnd(), ...lines.map((line) => ' '.repeat(NAME_COLUMNS + 4) + line)]),
    ...(shown.length === 0 ? [] : ['', ...formatProblems(shown, textColumns).split('\n'), '']),
  ]
}

/** Grants are shown at the end, all together. Beside errors, a warning is marked as such. */
const selectShown = ({ problems, verdict }: Finding): readonly CheckedProblem[] =>
  problems
    .filter(({ grant }) => grant === undefined)
    .map((one) =>
      verdict === 'error' && one.verdict === 'warning' ? { ...one, place: `${one.place} (warning)` } : one,
    )

const isOwnError = ({ grant, verdict }: CheckedProblem): boolean =>
  grant === undefined && verdict !== 'warning'

/** The overall result. */
export function renderVerdict(findings: readonly Finding[], { paint }: Output): string[] {
  // Missing grants have a finding of their own.
  const failed = findings.filter(({ verdict }) => verdict === 'error')
  const wrong = failed.reduce(
    (sum, { problems }) => sum + (problems.length === 0 ? 1 : problems.filter(isOwnError).length),
    0,
  )
  if (wrong > 0) {
    const behind =
      failed.length > wrong ? `: ${failed.length} checks fail because of ${wrong === 1 ? 'it' : 'them'}` : ''
    return ['', paint('bad', `${pluralize(wrong, 'problem')} to fix before you can run${behind}.`)]
  }
  const isCreated = findings.find(({ name }) => name === 'schema')?.verdict !== 'warning'
  const next = isCreated
    ? `${paint('type', 'fillrate plan')} estimates lookups and cost.`
    : `${paint('type', 'fillrate migrate')} creates the schema "fillrate".`
  return ['', `${paint('good', isCreated ? 'Ready to run.' : 'Ready to migrate.')} Next: ${next}`]
}
