import { Option } from '@commander-js/extra-typings'
import { type CliCall, UsageError } from './command.ts'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

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

/** The input ended before the prompt was answered. */
export class PromptClosedError extends Error {
  override readonly name = 'PromptClosedError'
}

/** Prompts on the output and reads one answer a line from the input. The terminal edits the lines itself, so Ctrl-C remains a signal. */
export function openPrompt(
  input: Readable,
  output: { write(text: string): void; line(text?: string): void },
) {
  const lines = createInterface({ input, terminal: false })
  const answers = lines[Symbol.asyncIterator]()
  return {
    /** An empty answer means `byDefault`. Prompts again until the answer is valid. */
    confirm: async (question: string, byDefault = true): Promise<boolean> => {
      for (;;) {
        output.write(`${question} `)
        const next = await answers.next()
        if (next.done === true) {
          output.line()
          throw new PromptClosedError('the input ended')
        }
        const answer = next.value.trim().toLowerCase()
        if (answer === '') return byDefault
        if (/^(?:y(?:es)?|no?)$/.test(answer)) return answer.startsWith('y')
        output.line('  y or n.')
      }
    },
    close: (): void => lines.close(),
  }
}
