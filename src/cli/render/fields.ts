import type { Output } from '../output.ts'
import { pad, width, wrap } from './text.ts'

/** A label, what it says, and more about it, which goes on the same line where there is room. */
export type Field = readonly [label: string, text: string, more?: string]

const INDENT = 2
const GAP = 3

/** Labels with their texts beside them, broken where the terminal ends. */
export function fields(list: readonly Field[], output: Output): string[] {
  const { paint, textColumns } = output
  const labels = Math.max(...list.map(([label]) => width(label)))
  const room = Math.max(20, textColumns - INDENT - labels - GAP)
  return list.flatMap(([label, text, more = '']) => {
    const together = more === '' ? text : `${text} (${more})`
    const lines =
      width(together) <= room || more === ''
        ? wrap(together, room)
        : [...wrap(text, room), ...wrap(more, room)]
    return lines.map((line, n) => {
      const start = pad(n === 0 ? label : '', labels)
      return `${' '.repeat(INDENT)}${paint('quiet', start)}${' '.repeat(GAP)}${line}`.trimEnd()
    })
  })
}
