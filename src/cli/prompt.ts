import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

/** Prompts on a terminal. The terminal edits the lines itself, so Ctrl-C remains a signal. */
export type Prompt = ReturnType<typeof openPrompt>

/** The input ended before the prompt was answered. */
export class PromptClosedError extends Error {
  override readonly name = 'PromptClosedError'
}

/** Prompts on the output and reads one answer a line from the input. */
export function openPrompt(
  input: Readable,
  output: { write(text: string): void; line(text?: string): void },
) {
  const lines = createInterface({ input, terminal: false })
  const answers = lines[Symbol.asyncIterator]()
  const prompt = async <Answer>(
    question: string,
    read: (answer: string) => Answer | null,
    hint: string,
  ): Promise<Answer> => {
    for (;;) {
      output.write(`${question} `)
      const next = await answers.next()
      if (next.done === true) {
        output.line()
        throw new PromptClosedError('the input ended')
      }
      const answer = read(next.value.trim().toLowerCase())
      if (answer !== null) return answer
      output.line(`  ${hint}`)
    }
  }
  return {
    /** Selects entries of a list by number, from 1. An empty answer means `byDefault`: all, unless it is given. */
    select: (question: string, of: number, byDefault?: readonly number[]): Promise<readonly number[]> =>
      prompt(
        question,
        (answer) => (answer === '' && byDefault ? byDefault : parseNumbers(answer, of)),
        `Numbers from 1 to ${of}, such as 1,${of}; or all, or none.`,
      ),
    /** An empty answer means `byDefault`. */
    confirm: (question: string, byDefault = true): Promise<boolean> =>
      prompt(
        question,
        (answer) =>
          answer === '' ? byDefault : /^(?:y(?:es)?|no?)$/.test(answer) ? answer.startsWith('y') : null,
        'y or n.',
      ),
    close: (): void => lines.close(),
  }
}

/** Parses `1,3`, `1 3`, `1-3`, `none`, and `all` or an empty answer. Null for anything else. Pure. */
export function parseNumbers(answer: string, of: number): number[] | null {
  const all = Array.from({ length: of }, (_, n) => n + 1)
  if (answer === '' || answer === 'all') return all
  if (answer === 'none') return []
  const ranges = answer.split(/[\s,]+/).map((part) => {
    const [, from, to = from] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? []
    return { from: Number(from), to: Number(to) }
  })
  const isValid = ranges.every(({ from, to }) => from >= 1 && from <= to && to <= of)
  return isValid ? all.filter((n) => ranges.some(({ from, to }) => from <= n && n <= to)) : null
}
