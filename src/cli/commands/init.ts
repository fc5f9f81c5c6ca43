import { ConfigProblems } from '../../config/problems.ts'
import type { Prompt } from '../prompt.ts'
import type { FoundServices, Proposal, SkippedTable } from '../../init/proposal.ts'
import type { ConfigTarget } from '../../init/target.ts'
import type { AcceptedSource } from '../../init/verify.ts'
import type { Database } from '../../store/open.ts'
import { type CliCall, Exit, createParser, defineCommand } from '../command.ts'
import { useDatabase } from '../settings.ts'
import { parseText } from '../options.ts'
import {
  renderExplanation,
  renderFoundSources,
  renderMissingGrants,
  renderNextSteps,
  renderNoProposal,
  renderProposedSource,
  renderSkippedTables,
  renderUnread,
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
      const { openPrompt, PromptClosedError } = await import('../prompt.ts')
      const { proposeForTables } = await import('../../init/propose.ts')
      const { findServices } = await import('../../init/services.ts')
      const { proposeForServices } = await import('../../init/service-fields.ts')
      const { resolveConfigTarget } = await import('../../init/target.ts')
      const { flags, args, cwd, env, stdin, stdout, stderr, signal } = call
      if (flags.explain && args[0].length === 0) throw explainsNothing()
      const target = resolveConfigTarget({ cwd, out: flags.out, force: flags.force || flags.explain })
      const services = await findServices({ module: flags.service, env, cwd, configPath: target.path })
      const isAsked = !flags.yes && !flags.json && stdin?.isTTY === true && stdout.isTTY
      const prompt = isAsked ? openPrompt(stdin, stdout) : null
      try {
        const db = await useDatabase(call)
        const found = await proposeForTables(db, args[0], (table, n, of) => {
          signal.throwIfAborted()
          stderr.live([`Examining ${table.schema}.${table.name}, ${n} of ${of}`])
        })
        stderr.live([])
        if (flags.explain) return await explanation(found, stdout)
        return await writeProposal(proposeForServices(found, services), {
          db,
          services,
          target,
          prompt,
          call,
        })
      } catch (error) {
        if (!(error instanceof PromptClosedError)) throw error
        stdout.line('Nothing was written.')
        return Exit.interrupted
      } finally {
        prompt?.close()
      }
    },
  },
)

async function explanation({ examined, explained, unread }: Proposal, stdout: Output) {
  const { listMissingGrants } = await import('../../init/unreadable.ts')
  const grants = listMissingGrants(unread.filter(({ isNamed }) => isNamed))
  return {
    json: { written: null, examined, explained, sources: [], skipped_tables: [], grants },
    text: () => [
      ...explained.flatMap((one) => renderExplanation(one, stdout)),
      ...renderMissingGrants(grants, stdout),
    ],
    exit: grants.length === 0 ? Exit.done : Exit.failed,
  }
}

interface Writing {
  readonly db: Database
  readonly services: FoundServices
  readonly target: ConfigTarget
  /** Null: without prompts. */
  readonly prompt: Prompt | null
  readonly call: Pick<CliCall, 'flags' | 'stdout'>
}

/** Shows the proposal, and writes what is accepted of it. */
async function writeProposal(proposal: Proposal, writing: Writing) {
  const { services, target, prompt, call } = writing
  const { flags, stdout } = call
  const { sources, possible, unread } = proposal
  // Without prompts, no person has said that they are meant.
  const offered = prompt === null ? [] : possible
  const hasSources = sources.length + offered.length > 0
  const { describeUnread, listMissingGrants } = await import('../../init/unreadable.ts')
  const notRead = unread.map((one) => ({ table: one.table, reason: describeUnread(one) }))
  if (!flags.json)
    stdout.lines([
      ...(hasSources ? renderFoundSources(proposal, offered, stdout) : renderNoProposal(proposal, stdout)),
      // Before a person confirms a source: it decides whom they look up.
      ...(hasSources || !unread.some(({ isNamed }) => isNamed) ? renderUnread(unread, stdout) : []),
    ])
  const { accepted: written, skippedTables } = await selectSources({ sources, possible: offered }, writing)
  const isTaken = (name: string): boolean => written.some(({ source }) => source.name === name)
  const left = possible.flatMap(({ source: { name, table }, reason }) =>
    isTaken(name) ? [] : [{ table, reason }],
  )
  const skipped = [...left, ...proposal.skippedTables, ...skippedTables]
  const grants = listMissingGrants(
    unread,
    written.map(({ source }) => source),
    proposal.role,
  )
  if (!flags.json)
    stdout.lines([
      ...(hasSources ? renderSkippedTables(skipped, stdout) : []),
      ...renderMissingGrants(grants, stdout),
    ])
  if (written.length > 0) {
    const { writeConfig } = await import('../../init/target.ts')
    await writeConfig(target, await formatConfig(written, target, services, { unread, left }))
  }
  const steps = (): string[] =>
    written.length > 0 ? renderNextSteps(written, target, stdout) : hasSources ? ['Nothing was written.'] : []
  return {
    json: {
      written: written.length > 0 ? target.path : null,
      examined: proposal.examined,
      sources: written.map(toProposedSourceJson),
      skipped_tables: [...notRead, ...skipped],
      grants,
    },
    text: steps,
    exit: written.length > 0 || (prompt !== null && hasSources) ? Exit.done : Exit.failed,
  }
}

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
  const { changedAt, skippedColumns, sample, questions, outputs, ...same } = source
  return {
    ...same,
    outputs: outputs.map(({ byService: _ofServices, ...one }) => one),
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
  { sources: certain, possible }: Pick<Proposal, 'sources' | 'possible'>,
  { db, services, prompt, call: { flags, stdout } }: Writing,
): Promise<{ accepted: AcceptedSource[]; skippedTables: SkippedTable[] }> {
  const { verifyProposedSource, verifyProposedSources } = await import('../../init/verify.ts')
  const accepted: AcceptedSource[] = []
  const skippedTables: SkippedTable[] = []
  const answers: Answers = new Map()
  const byDefault = certain.map((_, n) => n + 1)
  const sources = [...certain, ...possible.map(({ source }) => source)]
  const shown = possible.length === 0 ? 'all' : byDefault.join(',') || 'none'
  const question = `\nWhich sources? Numbers such as 1,2, or none ${stdout.paint('quiet', `[${shown}]`)}`
  const wanted =
    prompt !== null && (sources.length > 1 || certain.length === 0)
      ? await prompt.select(question, sources.length, byDefault)
      : byDefault
  // Where no person waits for the first, some at the same time.
  const verified = prompt === null ? await verifyProposedSources(db, sources, services) : []
  for (const [n, source] of sources.entries()) {
    if (!wanted.includes(n + 1)) continue
    const held = verified[n] ?? (await verifyProposedSource(db, source, services))
    if ('reason' in held) {
      skippedTables.push(held)
      continue
    }
    if (!flags.json) stdout.lines(['', ...renderProposedSource(held, stdout), ''])
    const add = `Add ${source.name}? ${stdout.paint('quiet', '[Y/n]')}`
    if (prompt !== null && !(await prompt.confirm(add))) continue
    accepted.push(prompt === null ? held : await promptAbout(held, prompt, answers, stdout))
  }
  return { accepted, skippedTables }
}

/** Which rows must be left out, by their descriptions. */
type Answers = Map<string, boolean>

/** Prompts for what must be left out of a source; the answers for one before it are the default for the same rows. */
async function promptAbout(
  held: AcceptedSource,
  prompt: Prompt,
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
  const text = `Leave out which of these rows of ${name}? Numbers, all, or none ${paint('quiet', `[${shown}]`)}`
  const chosen = await prompt.select(text, questions.length, byDefault)
  for (const [n, { when }] of questions.entries()) answers.set(when, chosen.includes(n + 1))
  return {
    ...held,
    source: answerQuestions(held.source, ({ when }) => answers.get(when) === true),
    isReviewed: true,
  }
}

async function formatConfig(
  written: readonly AcceptedSource[],
  { isJson }: ConfigTarget,
  services: FoundServices,
  beside: { readonly unread: Proposal['unread']; readonly left: readonly SkippedTable[] },
): Promise<string> {
  const { renderConfig } = await import('../../init/config-text.ts')
  const { toConfigObject } = await import('../../init/config-object.ts')
  if (!isJson) return renderConfig(written, services, beside)
  return `${JSON.stringify(toConfigObject(written, services), null, 2)}\n`
}
