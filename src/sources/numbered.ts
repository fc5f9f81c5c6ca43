import type { Output } from './mapped.ts'

/** An output and its number in the statement, which names what is computed for it: `~given0`, `~new0`, `~set0`. */
export interface Numbered {
  readonly output: Output
  readonly n: number
}

/** All outputs of an output's group, itself among them; none when it stands alone. */
export const groupOf = (output: Output, all: readonly Numbered[]): readonly Numbered[] =>
  output.mapping.group === null
    ? []
    : all.filter((other) => other.output.mapping.group === output.mapping.group)
