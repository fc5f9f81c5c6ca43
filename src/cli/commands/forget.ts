import type { ForgetReport } from '../../actions/forget.ts'
import type { ForgetTarget, NamedKind, UnsearchedSource } from '../../actions/forget-target.ts'
import { ConfigProblems } from '../../config/problems.ts'
import { asReviewed } from '../../domain/mapping.ts'
import type { Source } from '../../sources/source-model.ts'
import type { Database } from '../../store/open.ts'
import { pluralize, formatCount } from '../../util/text.ts'
import {
  Exit,
  UsageError,
  createParser,
  defineCommand,
  requireYes,
  type Answer,
  type CliCall,
  type CliCallOf,
  type CliCommand,
} from '../command.ts'
import { auditCommand, openLog, readConfig, useApp, useDatabase } from '../settings.ts'
import { parseText, yesOption } from '../options.ts'
import type { ForgetDeletedReport } from '../../runs/pick-sources.ts'
import type { ErasedRows } from '../../store/deleted-rows.ts'
import type { StoredSuppression } from '../../store/suppressions.ts'
import type { Output } from '../terminal.ts'
import { compact, renderFields, type Field } from '../views/layout.ts'
import { renderKeyedRows, renderTable } from '../views/table.ts'

const forgetParser = createParser('forget')
  .summary('erases stored data of a person or company, and suppresses further lookups')
  .description(
    'Deletes what is stored of a person or company, then searches every table of the schema "fillrate" for ' +
      'remaining copies. A hashed tombstone keeps runs and late deliveries from restoring the data. Pass every ' +
      'identifier you know for the person. Your own tables are not changed; the affected rows are listed.',
  )
  .option('--email <ADDRESS>', 'person, by email address', parseText, null)
  .option('--linkedin <URL>', 'person, by profile URL', parseText, null)
  .option('--domain <DOMAIN>', 'company; its employees are erased by their own identifiers', parseText, null)
  .option(
    '--deleted <SOURCE>',
    'rows that were deleted from the table of this source, now and without suppressing anything',
    parseText,
    null,
  )
  .option('--linked', 'erase many linked lookups of other identifiers, which is refused otherwise', false)
  .option('--allow-again', 'erase nothing, and permit lookups of these identifiers again', false)
  .option('--list', 'erase nothing, and list what is suppressed, as hashes', false)
  .option('--dry-run', 'show what would be erased without erasing it', false)
  .addOption(yesOption)

type ForgetCall = CliCallOf<typeof forgetParser>

export const forgetCommand = defineCommand(forgetParser, {
  group: 'work',
  examples: [
    ['fillrate forget --email ada@example.com --dry-run', 'preview; then --yes in place of --dry-run'],
    ['fillrate forget --domain acme.example --yes', 'a company'],
    ['fillrate forget --deleted contacts --yes', 'what is stored of contacts that the CRM no longer has'],
  ],

  async handler(call) {
    const { command, flags } = call
    const targets = [
      ...(await readTarget(command, '--email', 'email', flags.email)),
      ...(await readTarget(command, '--linkedin', 'linkedin_url', flags.linkedin)),
      ...(await readTarget(command, '--domain', 'domain', flags.domain)),
    ]
    const oneByOne = 'Erase them one after the other.'
    if (flags.deleted !== null) {
      if (targets.length === 0) return forgetDeletedRows(flags.deleted, call)
      throw new UsageError(command, 'expected either --deleted or a person or company, found both', oneByOne)
    }
    if (flags.list && targets.length === 0) return listSuppressed(call, null)
    if (targets.length === 0)
      throw new UsageError(
        command,
        'expected --email, --linkedin, --domain or --deleted, found none of them',
        'Name the person, the company or the source to erase.',
      )
    if (flags.domain !== null && targets.length > 1)
      throw new UsageError(
        command,
        'expected either a person (--email, --linkedin) or a company (--domain), found both',
        oneByOne,
      )
    if (flags.list) return listSuppressed(call, targets)
    return flags.allowAgain ? allowAgain(call, targets) : forgetTargets(call, targets)
  },
})

/** Erases what is stored of a person or company. */
async function forgetTargets(call: ForgetCall, targets: readonly ForgetTarget[]): Promise<Answer> {
  const { command, flags, stdout } = call
  const { dryRun } = flags
  requireYes(call)
  const { forgetSubject: erase, LinkedEraseError } = await import('../../actions/forget.ts')
  const db = await useDatabase(call)
  const log = await openLog(call)
  const deps = { db, log, ...(await openSources(db, call)) }
  const report = await auditCommand(
    db,
    // By kind only: the identifier itself is what must not remain.
    dryRun ? null : { action: 'forget', parameters: { kinds: targets.map(({ kind }) => kind) } },
    () => erase(deps, targets, { dryRun, includeLinked: flags.linked }),
    (done) => ({
      outcome: isComplete(done) ? 'done' : 'failed',
      detail: [
        `${pluralize(done.erased.lookups, 'lookup')} and ${pluralize(done.erased.rows, 'row')} erased`,
        ...done.unsearched.map(({ source, reason }) => `${source} not searched: ${reason}`),
      ].join('; '),
    }),
  ).catch((error: unknown) => {
    if (!(error instanceof LinkedEraseError)) throw error
    throw new UsageError(command, error.message, 'Look at the rows with --dry-run; --linked erases them too.')
  })
  return {
    json: report,
    text: () => renderForget(report, stdout),
    exit: isComplete(report) ? Exit.done : Exit.failed,
  }
}

const isComplete = ({ remaining, unsearched }: ForgetReport): boolean =>
  remaining.length === 0 && unsearched.length === 0

/** Takes the suppressions of identifiers back. */
async function allowAgain(call: CliCall, targets: readonly ForgetTarget[]): Promise<Answer> {
  const { deleteSuppressions } = await import('../../store/suppressions.ts')
  const { inTransaction } = await import('../../store/transaction.ts')
  const db = await useDatabase(call)
  const removed = await auditCommand(
    db,
    { action: 'forget', parameters: { kinds: targets.map(({ kind }) => kind) } },
    () => inTransaction(db, (tx) => deleteSuppressions(tx, targets)),
    (count) => ({ outcome: 'done', detail: `${pluralize(count, 'suppression')} taken back` }),
  )
  return {
    json: { removed },
    text: () => [
      removed === 0
        ? 'None of these identifiers is suppressed.'
        : `${pluralize(removed, 'suppression')} taken back: the next run looks at the suppressed rows again.`,
    ],
  }
}

/** The sources whose rows can be searched, and why others cannot: what was written to their rows may be missed. */
async function openSources(
  db: Database,
  call: CliCall,
): Promise<{ readonly sources: readonly Source[]; readonly unopened: readonly UnsearchedSource[] }> {
  const { resolveSource } = await import('../../sources/source.ts')
  const { squashText, summarizeProblems } = await import('../../sources/problems.ts')
  // A person is erased although the configuration is invalid, unless its file is named.
  const config = await readConfig(call).catch((error: unknown) => {
    if (error instanceof ConfigProblems && call.flags.config === null) return error
    throw error
  })
  if (config instanceof ConfigProblems)
    return { sources: [], unopened: [{ source: 'the configuration', reason: squashText(config.message) }] }
  const sources: Source[] = []
  const unopened: UnsearchedSource[] = []
  for (const mapping of Object.values(asReviewed(config.sources))) {
    const { source, problems } = await resolveSource(db, mapping)
    if (source !== null && problems.length === 0) sources.push(source)
    else unopened.push({ source: mapping.name, reason: summarizeProblems(problems).problem })
  }
  return { sources, unopened }
}

/** Lists suppressions, or those of identifiers: the addresses themselves are gone. */
async function listSuppressed(call: CliCall, targets: readonly ForgetTarget[] | null): Promise<Answer> {
  const { listSuppressions } = await import('../../store/suppressions.ts')
  const suppressions = await listSuppressions(await useDatabase(call), targets)
  return { json: { suppressions }, text: () => renderSuppressions(suppressions, call.stdout) }
}

async function forgetDeletedRows(source: string, call: ForgetCall): Promise<Answer> {
  const { stdout, signal } = call
  const { dryRun } = call.flags
  requireYes(call)
  const { app } = await useApp(call, { opensUnreviewed: true })
  const { describeForgetDeleted } = await import('../../actions/audit.ts')
  const report = await auditCommand(
    app.db,
    dryRun ? null : { action: 'forget', parameters: { sources: [source], deleted: true } },
    () => app.forgetDeleted(source, { dryRun, signal }),
    describeForgetDeleted,
  )
  return {
    json: report,
    text: () => renderForgetDeleted(report, stdout),
    exit: signal.aborted ? Exit.interrupted : Exit.done,
  }
}

/** The message does not quote the value, which is personal data. */
async function readTarget(
  command: CliCommand,
  flag: string,
  kind: NamedKind,
  typed: string | null,
): Promise<ForgetTarget[]> {
  if (typed === null) return []
  const { parseForgetTarget } = await import('../../actions/forget-target.ts')
  const target = parseForgetTarget(kind, typed)
  if (typeof target !== 'string') return [target]
  throw new UsageError(command, `${flag}: expected ${EXPECTED[kind]}, found: ${target}`)
}

const EXPECTED: Readonly<Record<NamedKind, string>> = {
  email: 'one email address',
  linkedin_url: 'the URL of a profile, linkedin.com/in/…',
  domain: "a company's domain",
}

/** What was erased, what was searched, and the affected rows in the user's own tables. */
function renderForget(report: ForgetReport, output: Output): string[] {
  const { paint } = output
  const { erased, searched, remaining, unsearched, dry_run: dry } = report
  const nothing = Object.values(erased).every((count) => count === 0)
  const places = `${pluralize(searched.columns, 'column')} of ${pluralize(searched.tables, 'table')}`
  const found = remaining.reduce((sum, { rows }) => sum + rows, 0)
  const fate = nothing
    ? `No stored data found${dry ? '.' : '; further lookups are suppressed.'}`
    : dry
      ? 'Would be erased, and further lookups suppressed:'
      : 'Erased; further lookups are suppressed:'
  return compact([
    `${paint('good', '✓')} ${fate}`,
    '',
    ...renderFields(output, [
      ...(nothing ? [] : erasedFields(erased)),
      ['Searched', places, found === 0 ? 'nothing left' : `found in ${pluralize(found, 'row')}`],
    ]),
    ...remaining.map((place) =>
      paint('bad', `  still in ${pluralize(place.rows, 'row')} of fillrate.${place.table}.${place.column}`),
    ),
    ...unsearched.map(({ source, reason }) => paint('bad', `  not searched: ${source} (${reason})`)),
    unsearched.length > 0 &&
      '  What was written to rows whose record has expired may be left there. Correct it (`fillrate check`), and run the same command again.',
    ...renderKeyedRows(output, 'Your own rows, not changed by Fillrate', report.rows, [], 'see --json'),
  ])
}

/** The stored data of deleted rows, or the erased part. */
function renderForgetDeleted({ source, deleted, erased }: ForgetDeletedReport, output: Output): string[] {
  const { paint } = output
  if (deleted === 0)
    return [`${paint('good', '✓')} No row of ${source} was deleted from its table, as far as is known.`]
  const gone = `${pluralize(deleted, 'row')} of ${source} ${deleted === 1 ? 'was' : 'were'} deleted from its table`
  if (erased === null) return [`${gone}; what is stored of ${deleted === 1 ? 'it' : 'them'} can be erased.`]
  const left = deleted - erased.rows
  return [
    `${paint('good', '✓')} ${gone}. Erased; nothing is suppressed:`,
    '',
    ...renderFields(output, erasedFields(erased)),
    ...(left > 0 ? [`  ${formatCount(left)} of the rows are back, or wait for an answer.`] : []),
  ]
}

/** What is suppressed. The hash of an identifier is the SHA-256 of its kind, a line break, and the identifier. */
function renderSuppressions(suppressions: readonly StoredSuppression[], output: Output): string[] {
  if (suppressions.length === 0) return ['Nothing is suppressed.']
  return [
    ...renderTable(output, suppressions, [
      { title: 'since', text: ({ since }) => since.toISOString(), minColumns: 24 },
      { title: 'kind', text: ({ kind }) => kind, minColumns: 12 },
      { title: 'hash', text: ({ hash }) => hash, minColumns: 64 },
    ]),
    '',
    `${pluralize(suppressions.length, 'suppression')}; the identifiers themselves are erased. \`fillrate forget --email … --allow-again\` takes one back.`,
  ]
}

/** Of deleted rows, only what was stored of themselves is erased. */
const erasedFields = (erased: ErasedRows & Partial<ForgetReport['erased']>): Field[] => {
  const { linked_lookups: linked, bodies = 0, mentions } = erased
  const unparseable = `and ${pluralize(bodies, 'delivery', 'deliveries')} that could not be parsed, erased completely`
  return [
    ['Lookups', formatCount(erased.lookups), `${pluralize(erased.records, 'record')} among them`],
    linked !== undefined && [
      'Linked',
      formatCount(linked),
      'lookups of other identifiers that it is linked to, among them',
    ],
    ['Rows', formatCount(erased.rows)],
    ['Changes', formatCount(erased.changes), 'previous and written values'],
    ['Deliveries', pluralize(erased.results, 'result'), bodies === 0 ? '' : unparseable],
    mentions !== undefined && [
      'Mentions',
      formatCount(mentions),
      'in records and cells of others, reasons, notes and conditions',
    ],
  ]
}
