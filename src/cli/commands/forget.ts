import type { ForgetReport } from '../../actions/forget.ts'
import type { ForgetTarget, UnsearchedSource } from '../../actions/forget-target.ts'
import { ConfigProblems } from '../../config/problems.ts'
import type { Source } from '../../sources/source.ts'
import type { Database } from '../../store/open.ts'
import { pluralize } from '../../util/format.ts'
import {
  type CliCommand,
  type Context,
  type ExitCode,
  type Invocation,
  DATABASE_VARIABLES,
  Exit,
  createParser,
  createUsageError,
  defineCommand,
} from '../command.ts'
import { openLog, readConfigOrProblems, withApp, withDatabase } from '../settings.ts'
import { booleanOption, textOption } from '../options.ts'
import { confirm, mustConfirm, yesOption } from '../confirm.ts'
import { renderForget, renderForgetDeleted, renderSuppressions } from '../views/forget.ts'
import { writeJson } from '../terminal.ts'

export const forgetCommand = defineCommand(
  createParser('forget')
    .summary('erases stored data of a person or company, and suppresses further lookups')
    .description(
      'Deletes the record, the lookup inputs, the recorded values and the copies in deliveries, then searches every ' +
        'table of the schema "fillrate" for remaining copies. Leaves a hashed tombstone, so that neither a run nor a ' +
        'late delivery restores the data. Pass every identifier you know for the person. Your own tables are not ' +
        'changed; the affected rows are listed. With --deleted it erases what is stored of rows that a source no longer ' +
        'has. On a terminal it shows the numbers first, and erases after a confirmation; elsewhere it needs --yes.',
    )
    .addOption(textOption('--email <ADDRESS>', 'person, by email address'))
    .addOption(textOption('--linkedin <URL>', 'person, by profile URL'))
    .addOption(textOption('--domain <DOMAIN>', 'company; its employees are erased by their own identifiers'))
    .addOption(
      textOption(
        '--deleted <SOURCE>',
        'rows that were deleted from the table of this source, now and without suppressing anything',
      ),
    )
    .addOption(
      booleanOption('--linked', 'erase many linked lookups of other identifiers, which is refused otherwise'),
    )
    .addOption(booleanOption('--allow-again', 'erase nothing, and permit lookups of these identifiers again'))
    .addOption(booleanOption('--list', 'erase nothing, and list what is suppressed, as hashes'))
    .addOption(booleanOption('--dry-run', 'show what would be erased without erasing it'))
    .addOption(yesOption),
  {
    group: 'work',
    examples: [
      ['fillrate forget --email ada@example.com --dry-run', 'preview; then the same without --dry-run'],
      ['fillrate forget --domain acme.example', 'a company'],
      ['fillrate forget --deleted contacts', 'what is stored of contacts that the CRM no longer has'],
    ],
    environment: DATABASE_VARIABLES,

    async handler(invocation, context) {
      const { command, flags } = invocation
      const { stdout } = context
      const targets = [
        ...(await readTarget(command, '--email', 'email', flags.email)),
        ...(await readTarget(command, '--linkedin', 'linkedin_url', flags.linkedin)),
        ...(await readTarget(command, '--domain', 'domain', flags.domain)),
      ]
      if (flags.deleted !== null) {
        if (targets.length > 0)
          throw createUsageError(
            command,
            'expected either --deleted or a person or company, found both',
            'Erase them one after the other.',
          )
        return forgetDeletedRows(invocation, context, flags.deleted, flags.dryRun)
      }
      if (flags.list && targets.length === 0) return listSuppressed(invocation, context)
      if (targets.length === 0)
        throw createUsageError(
          command,
          'expected --email, --linkedin, --domain or --deleted, found none of them',
          'Name the person, the company or the source to erase.',
        )
      if (flags.domain !== null && targets.length > 1)
        throw createUsageError(
          command,
          'expected either a person (--email, --linkedin) or a company (--domain), found both',
          'Erase them one after the other.',
        )
      if (flags.list) return listSuppressed(invocation, context, targets)
      if (flags.allowAgain) return allowAgain(invocation, context, targets)
      const isAsked = !flags.dryRun && mustConfirm(invocation, context)
      const { forgetSubject: erase, LinkedEraseError } = await import('../../actions/forget.ts')
      const report = await withDatabase(context, async (db, environment) => {
        const log = await openLog(invocation, context, environment)
        const deps = { db, log, ...(await openSources(db, invocation, context)) }
        if (isAsked) {
          const preview = await erase(deps, targets, { dryRun: true })
          stdout.lines(renderForget(preview, stdout, { isQuestion: true }))
          const question = 'Erase this and suppress further lookups? It cannot be undone.'
          if (!(await confirm(question, context))) return null
        }
        if (flags.dryRun) return erase(deps, targets, { dryRun: true })
        const { auditAction, createLocalActor } = await import('../../actions/audit.ts')
        // By kind only: the identifier itself is what must not remain.
        const parameters = { kinds: targets.map(({ kind }) => kind) }
        return auditAction(
          db,
          { actor: createLocalActor('command line'), action: 'forget', parameters },
          () => erase(deps, targets, { dryRun: false, includeLinked: flags.linked }),
          (done) => ({
            outcome: isComplete(done) ? 'done' : 'failed',
            detail: [
              `${pluralize(done.erased.lookups, 'lookup')} and ${pluralize(done.erased.rows, 'row')} erased`,
              ...done.unsearched.map(({ source, reason }) => `${source} not searched: ${reason}`),
            ].join('; '),
          }),
        )
      }).catch((error: unknown) => {
        if (!(error instanceof LinkedEraseError)) throw error
        throw createUsageError(
          command,
          error.message,
          'Look at the rows with --dry-run; --linked erases them too.',
        )
      })
      if (report === null) {
        stdout.line('Nothing was changed.')
        return Exit.failed
      }
      if (flags.json) writeJson(stdout, report)
      else stdout.lines(renderForget(report, stdout))
      return isComplete(report) ? Exit.done : Exit.failed
    },
  },
)

const isComplete = ({ remaining, unsearched }: ForgetReport): boolean =>
  remaining.length === 0 && unsearched.length === 0

/** Takes the suppressions of identifiers back. */
async function allowAgain(
  { flags }: Invocation,
  context: Context,
  targets: readonly ForgetTarget[],
): Promise<ExitCode> {
  const [{ deleteSuppressions }, { inTransaction }, { auditAction, createLocalActor }] = await Promise.all([
    import('../../store/suppressions.ts'),
    import('../../store/transaction.ts'),
    import('../../actions/audit.ts'),
  ])
  const parameters = { kinds: targets.map(({ kind }) => kind) }
  const removed = await withDatabase(context, (db) =>
    auditAction(
      db,
      { actor: createLocalActor('command line'), action: 'forget', parameters },
      () => inTransaction(db, (tx) => deleteSuppressions(tx, targets)),
      (count) => ({ outcome: 'done', detail: `${pluralize(count, 'suppression')} taken back` }),
    ),
  )
  if (flags.json) writeJson(context.stdout, { removed })
  else
    context.stdout.line(
      removed === 0
        ? 'None of these identifiers is suppressed.'
        : `${pluralize(removed, 'suppression')} taken back: the next run looks at the suppressed rows again.`,
    )
  return Exit.done
}

/** The sources whose rows can be searched, and why others cannot: what was written to their rows may be missed. */
async function openSources(
  db: Database,
  invocation: Invocation,
  context: Context,
): Promise<{ readonly sources: readonly Source[]; readonly unopened: readonly UnsearchedSource[] }> {
  const [{ toOneLine }, { resolveSource }, { SourceProblems }] = await Promise.all([
    import('../../daemon/reload.ts'),
    import('../../sources/source.ts'),
    import('../../sources/problems.ts'),
  ])
  const config = await readConfigOrProblems(invocation, context)
  if (config instanceof ConfigProblems)
    return { sources: [], unopened: [{ source: 'the configuration', reason: toOneLine(config) }] }
  const sources: Source[] = []
  const unopened: UnsearchedSource[] = []
  for (const mapping of Object.values(config.sources)) {
    const { source, problems } = await resolveSource(db, mapping)
    if (source !== null && problems.length === 0) sources.push(source)
    else unopened.push({ source: mapping.name, reason: toOneLine(new SourceProblems(problems)) })
  }
  return { sources, unopened }
}

/** Lists suppressions, or those of identifiers: the addresses themselves are gone. */
async function listSuppressed(
  { flags }: Invocation,
  context: Context,
  targets: readonly ForgetTarget[] | null = null,
): Promise<ExitCode> {
  const { listSuppressions } = await import('../../store/suppressions.ts')
  const suppressions = await withDatabase(context, (db) => listSuppressions(db, targets))
  if (flags.json) writeJson(context.stdout, { suppressions })
  else context.stdout.lines(renderSuppressions(suppressions, context.stdout))
  return Exit.done
}

async function forgetDeletedRows(
  invocation: Invocation & Parameters<typeof mustConfirm>[0],
  context: Context,
  source: string,
  dryRun: boolean,
): Promise<ExitCode> {
  const { stdout, signal } = context
  const isAsked = !dryRun && mustConfirm(invocation, context)
  return withApp(invocation, context, async (app) => {
    const preview = await app.forgetDeleted(source, { dryRun: true, signal })
    if (isAsked && preview.deleted > 0) {
      stdout.lines(renderForgetDeleted(preview, stdout))
      if (!(await confirm('Erase what is stored of them? It cannot be undone.', context))) {
        stdout.line('Nothing was changed.')
        return Exit.failed
      }
    }
    const { auditAction, createLocalActor, describeForgetDeleted } = await import('../../actions/audit.ts')
    const report = dryRun
      ? preview
      : await auditAction(
          app.db,
          {
            actor: createLocalActor('command line'),
            action: 'forget',
            parameters: { sources: [source], deleted: true },
          },
          () => app.forgetDeleted(source, { dryRun, signal }),
          describeForgetDeleted,
        )
    if (invocation.flags.json) writeJson(stdout, report)
    else stdout.lines(renderForgetDeleted(report, stdout))
    return signal.aborted ? Exit.interrupted : Exit.done
  })
}

/** The message does not quote the value, which is personal data. */
async function readTarget(
  command: CliCommand,
  flag: string,
  kind: ForgetTarget['kind'],
  typed: string | null,
): Promise<ForgetTarget[]> {
  if (typed === null) return []
  const { parseForgetTarget } = await import('../../actions/forget-target.ts')
  const target = parseForgetTarget(kind, typed)
  if (typeof target !== 'string') return [target]
  throw createUsageError(command, `${flag}: expected ${EXPECTED[kind]}, found: ${target}`)
}

const EXPECTED: Readonly<Record<ForgetTarget['kind'], string>> = {
  email: 'one email address',
  linkedin_url: 'the URL of a profile, linkedin.com/in/…',
  domain: "a company's domain",
}
