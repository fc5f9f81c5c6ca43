import type { Output } from '../output.ts'
import { formatCount } from '../../util/format.ts'
import { wrap } from './text.ts'

/** Numbers with their words under each other, and their sum. What is nothing is left out. */
export function countLines(
  list: readonly (readonly [n: number, words: string])[],
  [sum, total]: readonly [n: number, words: string],
  output: Output,
): string[] {
  const { paint, textColumns } = output
  const columns = formatCount(sum).length
  const lines = list
    .filter(([n]) => n > 0)
    .flatMap(([n, words]) =>
      wrap(words, textColumns - columns - 4).map(
        (line, at) => `  ${(at === 0 ? formatCount(n) : '').padStart(columns)}  ${line}`,
      ),
    )
  return [
    ...lines,
    `  ${paint('quiet', '─'.repeat(columns))}`,
    `  ${paint('heading', `${formatCount(sum)}  ${total}`)}`,
  ]
}
