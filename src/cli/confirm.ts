import { type Context, createUsageError, type Invocation } from './command.ts'
import { booleanOption } from './options.ts'

/** Skips the question of a command that changes data. */
export const yesOption = booleanOption(
  '-y, --yes',
  'act without a question; required where there is no terminal',
)

/**
 * Whether a command that changes data needs a confirmation first.
 * @throws UsageError where it can get none, without a terminal or with `--json`, unless `--yes` is given
 */
export function mustConfirm(
  {
    command,
    flags,
  }: Pick<Invocation, 'command'> & { readonly flags: Invocation['flags'] & { readonly yes: boolean } },
  { stdin, stdout }: Context,
): boolean {
  if (flags.yes) return false
  if (!flags.json && stdin?.isTTY === true && stdout.isTTY) return true
  throw createUsageError(
    command,
    'expected --yes, because there is no terminal for a confirmation',
    'Look at what it would do with --dry-run, then add --yes.',
  )
}

/** Puts a question that an empty answer denies. @returns false also if the input ends or the command is interrupted */
export async function confirm(question: string, { stdin, stdout, signal }: Context): Promise<boolean> {
  if (stdin === undefined || signal.aborted) return false
  const { openPrompt, PromptClosedError } = await import('../init/prompt.ts')
  const prompt = openPrompt(stdin, stdout)
  const close = (): void => prompt.close()
  signal.addEventListener('abort', close, { once: true })
  try {
    return await prompt.confirm(`\n${question} ${stdout.paint('quiet', '[y/N]')}`, false)
  } catch (error) {
    if (!(error instanceof PromptClosedError)) throw error
    return false
  } finally {
    signal.removeEventListener('abort', close)
    prompt.close()
  }
}
