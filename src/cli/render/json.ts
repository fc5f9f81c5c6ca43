import type { Output } from '../output.ts'

/** One object on standard output: indented for a person, on one line for a program. */
export function writeJson(output: Output, value: object): void {
  output.write(`${output.isTTY ? JSON.stringify(value, null, 2) : JSON.stringify(value)}\n`)
}
