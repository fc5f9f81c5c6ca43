import { forget as erase } from '../../pipeline/forget/forget.ts'
import { readTarget, type Target } from '../../pipeline/forget/target.ts'
import { usageOf, type Command } from '../command.ts'
import type { Context } from '../context.ts'
import { withDatabase } from '../database.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { forgetLines } from '../render/forget.ts'
import { writeJson } from '../render/json.ts'
import { openLog } from '../settings.ts'
import { UsageError } from '../usage-error.ts'

export async function forget(command: Command<'forget'>, context: Context): Promise<ExitCode> {
  const { flags } = command
  const { stdout } = context
  const targets = [
    ...read('--email', 'email', flags.email),
    ...read('--linkedin', 'linkedin_url', flags.linkedin),
    ...read('--domain', 'domain', flags.domain),
  ]
  if (targets.length === 0)
    throw wrong('expected --email, --linkedin or --domain, found none of them', 'Say who is to be forgotten.')
  if (flags.domain !== null && targets.length > 1)
    throw wrong(
      'expected either a person (--email, --linkedin) or a company (--domain), found both',
      'Forget one after the other.',
    )
  const report = await withDatabase(context, (db, environment) =>
    erase({ db, log: openLog(command, context, environment) }, targets, { dryRun: flags.dryRun }),
  )
  if (flags.json) writeJson(stdout, report)
  else for (const line of forgetLines(report, stdout)) stdout.line(line)
  return report.remaining.length > 0 ? Exit.failed : Exit.done
}

/** The message does not quote what was typed: it may be somebody's address. */
function read(flag: string, kind: Target['kind'], typed: string | null): Target[] {
  if (typed === null) return []
  const target = readTarget(kind, typed)
  if (typeof target !== 'string') return [target]
  throw wrong(`${flag}: expected ${EXPECTED[kind]}, found: ${target}`, null)
}

const EXPECTED: Readonly<Record<Target['kind'], string>> = {
  email: 'one email address',
  linkedin_url: 'the URL of a profile, linkedin.com/in/…',
  domain: "a company's domain",
}

const wrong = (message: string, suggestion: string | null): UsageError =>
  new UsageError(message, { usage: usageOf('forget'), help: 'fillrate forget --help', suggestion })
