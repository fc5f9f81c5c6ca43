import { Option } from '@commander-js/extra-typings'
import { type CliCall, UsageError } from './command.ts'
import { createInterface } from 'node:readline'

/** Skips the question of a command that changes data. */
export const yesOption = new Option(
  '-y, --yes',
  'act without a question; required where there is no terminal',
).default(false)

/** A question was denied. The message says what that means. */
export class DeniedError extends Error {}

/**
 * Whether a command that changes data needs a confirmation first.
 * @throws UsageError where it can get none, without a terminal or with `--json`, unless `--yes` is given
 */
export function mustConfirm({
  command,
  flags,
  stdin,
  stdout,
}: CliCall<unknown[], { yes: boolean; dryRun: boolean }>): boolean {
  if (flags.yes || flags.dryRun) return false
  if (!flags.json && stdin?.isTTY === true && stdout.isTTY) return true
  throw new UsageError(
    command,
    'expected --yes, because there is no terminal for a confirmation',
    'Look at what it would do with --dry-run, then add --yes.',
  )
}

/**
 * Puts a question, which anything but y or yes denies.
 * @throws DeniedError also if the input ends or the command is interrupted
 */
export async function requireConfirmation(
  question: string,
  { stdin, stdout, signal }: Pick<CliCall, 'stdin' | 'stdout' | 'signal'>,
  denied = 'Nothing was changed.',
): Promise<void> {
  if (stdin === undefined || signal.aborted) throw new DeniedError(denied)
  // The terminal edits the line itself, so that Ctrl-C remains a signal.
  const lines = createInterface({ input: stdin, terminal: false, signal })
  stdout.write(`\n${question} ${stdout.paint('quiet', '[y/N]')} `)
  for await (const line of lines) {
    if (/^y(?:es)?$/i.test(line.trim())) return
    throw new DeniedError(denied)
  }
  stdout.line()
  throw new DeniedError(denied)
}
