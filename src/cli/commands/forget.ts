import { type ForgetTarget, parseForgetTarget } from '../../actions/forget.ts'
import {
  type CliCommand,
  DATABASE_VARIABLES,
  Exit,
  createParser,
  createUsageError,
  defineCommand,
} from '../command.ts'
import { openLog, withDatabase } from '../settings.ts'
import { booleanOption, textOption } from '../options.ts'
import { renderForget } from '../views/forget.ts'
import { writeJson } from '../terminal.ts'

export const forgetCommand = defineCommand(
  createParser('forget')
    .summary('erases what is stored of a person or a company, and never asks again')
    .description(
      'Deletes the record, what was asked, the values before and after, and the copies in deliveries; then searches every ' +
        'table of the schema "fillrate" for what is left. Leaves a hashed tombstone, so that neither a run nor a late ' +
        'delivery brings it back. A person known by two identifiers is given by both. Your own tables are yours: their rows ' +
        'are listed, and nothing in them is changed.',
    )
    .addOption(textOption('--email <ADDRESS>', 'a person, by email address'))
    .addOption(textOption('--linkedin <URL>', 'a person, by profile URL'))
    .addOption(
      textOption('--domain <DOMAIN>', 'a company; those who work there are erased by their own identifiers'),
    )
    .addOption(booleanOption('--dry-run', 'tells what would be erased, and erases nothing')),
  {
    group: 'work',
    examples: [
      ['fillrate forget --email ada@example.com --dry-run', 'first look, then the same without it'],
      ['fillrate forget --domain acme.example', 'a company'],
    ],
    environment: DATABASE_VARIABLES,

    async handler(invocation, context) {
      const { command, flags } = invocation
      const { stdout } = context
      const targets = [
        ...read(command, '--email', 'email', flags.email),
        ...read(command, '--linkedin', 'linkedin_url', flags.linkedin),
        ...read(command, '--domain', 'domain', flags.domain),
      ]
      if (targets.length === 0)
        throw createUsageError(
          command,
          'expected --email, --linkedin or --domain, found none of them',
          'Say who is to be forgotten.',
        )
      if (flags.domain !== null && targets.length > 1)
        throw createUsageError(
          command,
          'expected either a person (--email, --linkedin) or a company (--domain), found both',
          'Forget one after the other.',
        )
      const { forgetSubject: erase } = await import('../../actions/forget.ts')
      const report = await withDatabase(context, (db, environment) =>
        erase({ db, log: openLog(invocation, context, environment) }, targets, { dryRun: flags.dryRun }),
      )
      if (flags.json) writeJson(stdout, report)
      else for (const line of renderForget(report, stdout)) stdout.line(line)
      return report.remaining.length > 0 ? Exit.failed : Exit.done
    },
  },
)

/** The message does not quote what was typed: it may be somebody's address. */
function read(
  command: CliCommand,
  flag: string,
  kind: ForgetTarget['kind'],
  typed: string | null,
): ForgetTarget[] {
  if (typed === null) return []
  const target = parseForgetTarget(kind, typed)
  if (typeof target !== 'string') return [target]
  throw createUsageError(command, `${flag}: expected ${EXPECTED[kind]}, found: ${target}`)
}

const EXPECTED: Readonly<Record<ForgetTarget['kind'], string>> = {
  email: 'one email address',
  linkedin_url: 'the URL of a profile, linkedin.com/in/…',
  domain: "a company's domain",
}
