import { dirname, relative, resolve } from 'node:path'
import { ConfigProblems } from '../../config/problems.ts'
import type { GivenService } from '../../config/service.ts'
import type { Service } from '../../domain/service/service.ts'
import { readEnvironment } from '../../config/environment.ts'
import type { ConfigServices } from '../../init/config-text.ts'
import type { FoundKeys } from '../../init/keyed-services.ts'
import type { Proposal, ProposedSource, SkippedTable } from '../../init/proposal.ts'
import type { Database } from '../../store/open.ts'
import { type CliCall, Exit, createParser, defineCommand } from '../command.ts'
import { useDatabase } from '../settings.ts'
import type { AcceptedSource } from '../../init/verify.ts'
import type { InitPrompt } from '../../init/prompt.ts'
import type { ConfigTarget } from '../../init/target.ts'
import { parseText } from '../options.ts'
import {
  renderExplanation,
  renderFoundSources,
  renderNextSteps,
  renderNoProposal,
  renderProposedSource,
  renderSkeletonSteps,
  renderSkippedTables,
} from '../views/init.ts'
import type { Output } from '../terminal.ts'

export const initCommand = defineCommand(
  createParser('init')
    .summary('proposes a configuration from the database and writes it')
    .description(
      'Finds tables and columns that hold people and companies by their names, types and a sample of rows, and ' +
        'proposes identifiers to look up, columns to fill and rows to leave out. What it is unsure of becomes a ' +
        'comment with the reason. Keys of services with a name in the environment (FILLRATE_HUNTER_API_KEY) become ' +
        '`services`. Shows the fill rate of each column. On a terminal it asks for confirmation, source ' +
        'by source. Writes one file, never overwrites one without --force, and writes nothing to the database.',
    )
    .argument('[TABLE...]', 'tables to inspect, such as crm.contacts; default: all')
    .option('-y, --yes', 'accept every proposed source without confirmation', false)
    .option('--out <FILE>', 'the file to write, .ts or .json; default: fillrate.config.ts', parseText, null)
    .option(
      '--explain',
      'show what was made of each column of the tables that are named; writes nothing',
      false,
    )
    .option('--force', 'overwrite the file if it exists', false)
    .option(
      '--service <MODULE>',
      'a service of your own, whose fields and inputs are proposed; default: that of the configuration in this folder',
      parseText,
      null,
    ),
  {
    group: 'setup',
    examples: [
      ['fillrate init', ''],
      ['fillrate init crm.contacts crm.accounts --yes', 'two tables, without confirmation'],
      ['fillrate init --explain crm.contacts', 'why it proposes what it does, column by column'],
      ['fillrate init --out new.config.ts', 'a second file, to compare with the current configuration'],
      ['fillrate init --service ./acme.ts', 'with the fields of a service of your own'],
    ],
    exits: [0, 1, 2, 130],

    async handler(call) {
      const { openPrompt, PromptClosedError } = await import('../../init/prompt.ts')
      const { proposeForTables } = await import('../../init/propose.ts')
      const { adaptProposal } = await import('../../init/service-fields.ts')
      const { combineProposals } = await import('../../init/keyed-services.ts')
      const { createSkeleton } = await import('../../init/skeleton.ts')
      const { resolveConfigTarget, writeConfig } = await import('../../init/target.ts')
      const { CONFIG_FILES } = await import('../../config/load.ts')
      const { flags, args, cwd, stdin, stdout, stderr, signal } = call
      if (flags.explain && args[0].length === 0) throw explainsNothing()
      const target = await resolveConfigTarget({ cwd, out: flags.out, force: flags.force || flags.explain })
      const adapter = await findService(flags.service, target, cwd)
      const keyed = await findKeys(adapter === null, call, target)
      const isAsked = !flags.yes && !flags.json && stdin?.isTTY === true && stdout.isTTY
      const questions = isAsked ? openPrompt(stdin, stdout) : null
      try {
        const db = await useDatabase(call)
        const found = await proposeForTables(db, args[0], (table, n, of) => {
          signal.throwIfAborted()
          stderr.live([`Examining ${table.schema}.${table.name}, ${n} of ${of}`])
        })
        stderr.live([])
        if (flags.explain)
          return {
            json: {
              written: null,
              examined: found.examined,
              explained: found.explained,
              sources: [],
              skipped_tables: [],
            },
            text: () => found.explained.flatMap((one) => renderExplanation(one, stdout)),
            exit: Exit.done,
          }
        const { proposal, givenFor, addOthers } =
          adapter === null && keyed.services.length > 0
            ? combineProposals(found, keyed.services)
            : {
                proposal: adapter === null ? found : adaptProposal(found, adapter.service),
                givenFor: () => adapter?.given ?? null,
                addOthers: (one: AcceptedSource) => one,
              }
        if (!flags.json)
          stdout.lines(
            proposal.sources.length === 0
              ? renderNoProposal(proposal, stdout)
              : renderFoundSources(proposal, stdout),
          )
        const { accepted, skippedTables } = await selectSources(db, proposal, givenFor, questions, call)
        const all = [...proposal.skippedTables, ...skippedTables]
        if (!flags.json && proposal.sources.length > 0 && all.length > 0)
          stdout.lines([...renderSkippedTables(all, stdout), ''])
        // With a service, and nothing declined, there is always a file to complete.
        const isSkeleton =
          adapter !== null && accepted.length === 0 && (!isAsked || proposal.sources.length === 0)
        const written = isSkeleton
          ? createSkeleton(adapter.service, proposal.unfilled).map((source) => ({
              source,
              coverage: null,
              isReviewed: false,
            }))
          : accepted.map(addOthers)
        if (written.length > 0)
          await writeConfig(
            target,
            await formatConfig(written, target, { service: adapter?.module ?? null, ...keyed }),
          )
        return {
          json: {
            written: written.length > 0 ? target.path : null,
            examined: proposal.examined,
            sources: accepted.map(toProposedSourceJson),
            skipped_tables: all,
          },
          text: () =>
            isSkeleton
              ? renderSkeletonSteps(written, target, stdout)
              : renderNextSteps(accepted, proposal, target, CONFIG_FILES, stdout),
          exit: written.length > 0 || (isAsked && proposal.sources.length > 0) ? Exit.done : Exit.failed,
        }
      } catch (error) {
        if (!(error instanceof PromptClosedError)) throw error
        stdout.line('Nothing was written.')
        return Exit.interrupted
      } finally {
        questions?.close()
      }
    },
  },
)

const explainsNothing = (): ConfigProblems =>
  new ConfigProblems('the command', [
    {
      place: '--explain',
      found: 'no table',
      expected: 'the tables to explain, such as crm.contacts',
      todo: 'Name one or more: fillrate init --explain crm.contacts.',
    },
  ])

/** All names in JSON are snake_case. */
function toProposedSourceJson({ source, coverage }: AcceptedSource) {
  const { changedAt, skippedColumns, otherColumns: _, sample, questions, ...same } = source
  return {
    ...same,
    questions: questions.map(({ about, when, keep, leftOut, isLeftOut }) => ({
      about,
      when,
      keep,
      rows: leftOut,
      left_out: isLeftOut,
    })),
    changed_at: changedAt,
    skipped_columns: skippedColumns,
    sample: { rows: sample.rows, identified_by: sample.identifiedBy },
    fill_rate: coverage,
  }
}

/** Verifies the selected sources against the database, shows them, and asks for confirmation on a terminal. */
async function selectSources(
  db: Database,
  proposal: Proposal,
  givenFor: (source: ProposedSource) => GivenService | null,
  questions: InitPrompt | null,
  { flags, stdout }: Pick<CliCall, 'flags' | 'stdout'>,
): Promise<{ accepted: AcceptedSource[]; skippedTables: SkippedTable[] }> {
  const { verifyProposedSource } = await import('../../init/verify.ts')
  const accepted: AcceptedSource[] = []
  const skippedTables: SkippedTable[] = []
  const answers: Answers = new Map()
  const { sources } = proposal
  const question = `\nWhich sources? Numbers such as 1,2, or none ${stdout.paint('quiet', '[all]')}`
  const wanted =
    questions !== null && sources.length > 1
      ? await questions.select(question, sources.length)
      : sources.map((_, n) => n + 1)
  for (const [n, source] of sources.entries()) {
    if (!wanted.includes(n + 1)) continue
    const held = await verifyProposedSource(db, source, givenFor(source))
    if ('reason' in held) {
      skippedTables.push(held)
      continue
    }
    if (!flags.json) stdout.lines(['', ...renderProposedSource(held, stdout), ''])
    const add = `Add ${source.name}? ${stdout.paint('quiet', '[Y/n]')}`
    if (questions !== null && !(await questions.confirm(add))) continue
    accepted.push(questions === null ? held : await promptAbout(held, questions, answers, stdout))
  }
  return { accepted, skippedTables }
}

/** Which rows must be left out, by their descriptions. */
type Answers = Map<string, boolean>

/** Prompts for what must be left out of a source; the answers for one before it are the default for the same rows. */
async function promptAbout(
  held: AcceptedSource,
  prompt: InitPrompt,
  answers: Answers,
  { paint }: Output,
): Promise<AcceptedSource> {
  const { answerQuestions } = await import('../../init/questions.ts')
  const { name, questions } = held.source
  if (questions.length === 0) return { ...held, isReviewed: true }
  const byDefault = questions.flatMap(({ when, isLeftOut }, n) =>
    (answers.get(when) ?? isLeftOut) ? [n + 1] : [],
  )
  const shown = byDefault.length === 0 ? 'none' : byDefault.join(',')
  const text = `Leave out which of the undecided rows of ${name}? Numbers, all, or none ${paint('quiet', `[${shown}]`)}`
  const chosen = await prompt.select(text, questions.length, byDefault)
  for (const [n, { when }] of questions.entries()) answers.set(when, chosen.includes(n + 1))
  return {
    ...held,
    source: answerQuestions(held.source, ({ when }) => answers.get(when) === true),
    isReviewed: true,
  }
}

/** A service of the user's own: from `--service`, or the module that the configuration in this folder names. */
async function findService(
  module: string | null,
  target: ConfigTarget,
  cwd: string,
): Promise<{ readonly service: Service; readonly given: GivenService; readonly module: string } | null> {
  const { findServiceModules, loadService } = await import('../../config/load.ts')
  const { parseService } = await import('../../config/service.ts')
  const path = module === null ? (await findServiceModules({ cwd })).get(null) : resolve(cwd, module)
  if (path === undefined) return null
  const given = await loadService(path)
  const { service, problems } = parseService(given)
  if (service === null) throw new ConfigProblems(path, problems)
  const from = relative(dirname(target.path), path).replaceAll('\\', '/')
  return { service, given, module: from.startsWith('.') ? from : `./${from}` }
}

/** The keys of services with names, for a configuration of several; none beside a service of its own, or a key without a name. */
async function findKeys(
  isPossible: boolean,
  { env, cwd }: Pick<CliCall, 'env' | 'cwd'>,
  { path: configPath }: ConfigTarget,
): Promise<FoundKeys> {
  const environment = readEnvironment(env)
  if (!isPossible || environment.apiKeys.length > 0) return { services: [], shipped: [] }
  const { findKeyedServices } = await import('../../init/keyed-services.ts')
  return findKeyedServices(environment, { cwd, configPath })
}

async function formatConfig(
  accepted: readonly AcceptedSource[],
  { isJson }: ConfigTarget,
  services: ConfigServices,
): Promise<string> {
  const { renderConfig } = await import('../../init/config-text.ts')
  if (!isJson) return renderConfig(accepted, services)
  const { toConfigObject } = await import('../../init/config-object.ts')
  return `${JSON.stringify(toConfigObject(accepted, services.service, services.services), null, 2)}\n`
}
