import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

/** The part of an output that prompts use. */
interface PromptOutput {
  write(text: string): void
  line(text?: string): void
}

/** Prompts on a terminal. The terminal edits the lines itself, so Ctrl-C remains a signal. */
export interface InitPrompt {
  /**
   * Selects entries of a list by number, from 1.
   * @param byDefault what an empty answer means: all, unless it is given
   */
  select(question: string, of: number, byDefault?: readonly number[]): Promise<readonly number[]>
  /** @param byDefault what an empty answer means */
  confirm(question: string, byDefault?: boolean): Promise<boolean>
  close(): void
}

/** The input ended before the prompt was answered. */
export class PromptClosedError extends Error {
  override readonly name = 'PromptClosedError'
}

/** Prompts on the output and reads one answer a line from the input. */
export function openPrompt(input: Readable, output: PromptOutput): InitPrompt {
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
    select: (question, of, byDefault) =>
      prompt<readonly number[]>(
        question,
        (answer) => (answer === '' ? byDefault : undefined) ?? parseNumbers(answer, of),
        `Numbers from 1 to ${of}, such as 1,${of}; or all, or none.`,
      ),
    confirm: (question, byDefault = true) =>
      prompt(question, (answer) => (answer === '' ? byDefault : parseYesNo(answer)), 'y or n.'),
    close: () => lines.close(),
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

const parseYesNo = (answer: string): boolean | null =>
  /^y(?:es)?$/.test(answer) ? true : /^no?$/.test(answer) ? false : null
