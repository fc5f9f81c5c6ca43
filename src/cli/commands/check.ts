import { basename } from 'node:path'
import type { CalledInput } from '../check/service.ts'
import type { Config } from '../../config/config.ts'
import { environmentOf, readEnvironment, type Environment } from '../../config/environment.ts'
import { formatProblems } from '../../config/problems.ts'
import type { SourceMapping } from '../../domain/mapping.ts'
import { ofService, createFinding, toFinding, type Finding, type CheckedProblem } from '../check/finding.ts'
import {
  Exit,
  SOURCES_ARGUMENT,
  UsageError,
  createParser,
  defineCommand,
  type CliCallOf,
} from '../command.ts'
import { pluralize, sanitize } from '../../util/text.ts'
import { readConfig } from '../settings.ts'
import { padText, wrapText, type Output, type TextStyle } from '../terminal.ts'
import { placeBeside } from '../views/layout.ts'

const checkParser = createParser('check')
  .summary('verifies configuration, database, API access and webhook URL')
  .description(
    'Checks everything that a run needs, and says how to fix each problem. Changes nothing and makes no billable ' +
      'call, unless --call is given. With sources it checks the database and these only.',
  )
  .argument(...SOURCES_ARGUMENT)
  .option(
    '--call <INPUT...>',
    'makes one lookup, which may be billed, and shows how its answer is understood, which is not stored: email=…, linkedin_url=…, domain=…, or name=… company=…; of several services at each that takes it, or at service=…',
  )

export const checkCommand = defineCommand(checkParser, {
  group: 'setup',
  examples: [
    ['fillrate check', ''],
    ['fillrate check contacts', 'the database and one source'],
    ['fillrate check --call email=ada@example.com', 'and one lookup, which may be billed'],
  ],
  exits: [0, 2],

  async handler(call) {
    const { flags, stdout } = call
    const checks: Finding[] = []
    let shown: string[] = []
    for await (const check of runChecks(call)) {
      const isOfAnother = check.service !== checks.at(-1)?.service
      checks.push(check)
      if (flags.json) continue
      const heading = check.service === undefined ? [] : [stdout.paint('heading', check.service)]
      // The problems of the finding before end with a blank line.
      const space = shown.at(-1) === '' ? [] : ['']
      shown = [...(isOfAnother ? [...space, ...heading] : []), ...renderFinding(check, stdout)]
      stdout.lines(shown)
    }
    const ok = checks.every(({ verdict }) => verdict !== 'error')
    return {
      json: { ok, checks },
      text: () => renderVerdict(checks, stdout),
      exit: ok ? Exit.done : Exit.usage,
    }
  },
})

/**
 * The checks. Of an invalid configuration neither sources nor services are checked, with an invalid
 * environment nothing else.
 */
async function* runChecks(call: CliCallOf<typeof checkParser>): AsyncGenerator<Finding> {
  const { env, flags } = call
  const [words] = call.args
  const { parseCall } = await import('../check/service.ts')
  const called = flags.call ? parseCall(call.command, flags.call) : null
  let config: Config | null = null
  try {
    config = await readConfig(call)
    yield describeConfig(config)
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
  if (config !== null) refuseUnknownService(call, config, called)
  const { configuredAddress } = await import('../../pipeline/deps.ts')
  const { checkDatabase } = await import('../check/database.ts')
  yield* checkDatabase({ environment, config, sources: await chooseSources(config, words), env })
  if (config === null || (words.length > 0 && called === null)) return
  const { checkService } = await import('../check/service.ts')
  for (const service of config.services) {
    const { name } = service
    const address = configuredAddress(name, config, environment)
    const own = { environment: environmentOf(environment, name), address, called }
    for await (const finding of checkService(service, own)) yield ofService(name, finding)
  }
}

/** @throws UsageError */
function refuseUnknownService(
  { command }: CliCallOf<typeof checkParser>,
  { serviceNames }: Config,
  called: CalledInput | null,
): void {
  const name = called?.service ?? null
  if (name === null || serviceNames.includes(name)) return
  throw new UsageError(
    command,
    `--call service=${name}: the configuration has no such service, but ${serviceNames.join(', ') || 'one without a name'}`,
  )
}

/** The sources that words name; without a word, all. */
async function chooseSources(config: Config | null, words: readonly string[]): Promise<SourceMapping[]> {
  const sources = Object.values(config?.sources ?? {})
  if (config === null || words.length === 0) return sources
  const { expandSourceNames } = await import('../../actions/validate-request.ts')
  const names = expandSourceNames(words, Object.keys(config.sources))
  return sources.filter(({ name }) => names.includes(name))
}

/** What the configuration has. A run refuses one without a budget, and says so. */
function describeConfig({ path, sources, serviceNames }: Config): Finding {
  const parts = [
    path === null ? 'from code' : basename(path),
    pluralize(Object.keys(sources).length, 'source'),
    ...(serviceNames.length === 0 ? [] : [pluralize(serviceNames.length, 'service')]),
  ]
  return createFinding('configuration', 'ok', parts.join(', '))
}

const SIGNS: Readonly<Record<Finding['verdict'], readonly [sign: string, style: TextStyle]>> = {
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
  const shown = finding.problems.filter(isShownHere)
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

/** Grants are shown at the end, all together. */
const isShownHere = ({ grant }: CheckedProblem): boolean => grant === undefined

/** The overall result. */
export function renderVerdict(findings: readonly Finding[], { paint }: Output): string[] {
  // Missing grants have a finding of their own.
  const failed = findings.filter(({ verdict }) => verdict === 'error')
  const wrong = failed.reduce(
    (sum, { problems }) => sum + (problems.length === 0 ? 1 : problems.filter(isShownHere).length),
    0,
  )
  if (wrong > 0) return ['', paint('bad', `${pluralize(wrong, 'problem')} to fix before you can run.`)]
  const isCreated = findings.find(({ name }) => name === 'schema')?.verdict !== 'warning'
  const next = isCreated
    ? `${paint('type', 'fillrate plan')} estimates lookups and cost.`
    : `${paint('type', 'fillrate migrate')} creates the schema "fillrate".`
  return ['', `${paint('good', isCreated ? 'Ready to run.' : 'Ready to migrate.')} Next: ${next}`]
}
