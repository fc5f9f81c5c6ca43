import type { Context, Invocation } from './command.ts'
import { booleanOption } from './options.ts'

/** Skips the question of a command that changes data. */
export const yesOption = booleanOption('-y, --yes', 'act without the question on a terminal')

/**
 * Whether a command that changes data needs a confirmation: only where a user types it. Without a terminal and with
 * `--json` it acts at once, so that no script hangs or stops working.
 */
export const mustConfirm = (
  { flags }: { readonly flags: Invocation['flags'] & { readonly yes: boolean } },
  { stdin, stdout }: Context,
): boolean => !flags.yes && !flags.json && stdin?.isTTY === true && stdout.isTTY

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
