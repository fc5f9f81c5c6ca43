import { Option } from '@commander-js/extra-typings'
import { type CliCall, UsageError } from './command.ts'

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
 * Puts a question that an empty answer denies.
 * @throws DeniedError also if the input ends or the command is interrupted
 */
export async function requireConfirmation(
  question: string,
  { stdin, stdout, signal }: Pick<CliCall, 'stdin' | 'stdout' | 'signal'>,
  denied = 'Nothing was changed.',
): Promise<void> {
  if (stdin === undefined || signal.aborted) throw new DeniedError(denied)
  const { openPrompt, PromptClosedError } = await import('./prompt.ts')
  const prompt = openPrompt(stdin, stdout)
  const close = (): void => prompt.close()
  signal.addEventListener('abort', close, { once: true })
  try {
    if (await prompt.confirm(`\n${question} ${stdout.paint('quiet', '[y/N]')}`, false)) return
  } catch (error) {
    if (!(error instanceof PromptClosedError)) throw error
  } finally {
    signal.removeEventListener('abort', close)
    prompt.close()
  }
  throw new DeniedError(denied)
}
