import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

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
