import type { Output } from '../output.ts'
import { pad, wrap } from './text.ts'

/** What one can type, and why one would. */
export type Step = readonly [type: string, why: string]

/** Under a heading; nothing where there is nothing to do. */
export function stepLines(steps: readonly Step[], output: Output): string[] {
  if (steps.length === 0) return []
  const { paint, textColumns } = output
  const longest = Math.max(...steps.map(([type]) => type.length))
  const room = Math.max(20, textColumns - longest - 5)
  return [
    '',
    paint('heading', 'Next'),
    ...steps.flatMap(([type, why]) =>
      wrap(why, room).map((line, n) => `  ${paint('type', pad(n === 0 ? type : '', longest))}   ${line}`),
    ),
  ]
}
