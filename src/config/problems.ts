import wrapAnsi from 'wrap-ansi'

import { FillrateError } from '../util/error-text.ts'

/** One mistake in the configuration or the environment. */
export interface Problem {
  /** Where: `sources.contacts.outputs.title.policy`, `FILLRATE_PORT`, `fillrate.config.json:3:14`. */
  readonly place: string
  /** The current value, without secrets. A line of the file may follow, with a caret under the place. */
  readonly found: string
  readonly expected: string
  /** How to fix it, if that says more than `expected`. */
  readonly todo: string | null
}

/**
 * An invalid configuration or environment; nothing has been run. The message is formatted for a terminal.
 * @example
 * try {
 *   await createFillrate({ config: 'fillrate.config.ts', env: process.env })
 * } catch (error) {
 *   if (error instanceof ConfigProblems) for (const { place, expected } of error.problems) console.error(place, expected)
 *   else throw error
 * }
 */
export class ConfigProblems extends FillrateError {
  override readonly name = 'ConfigProblems'
  /** The file's path, or `the environment`. */
  readonly where: string
  readonly problems: readonly Problem[]

  constructor(where: string, problems: readonly Problem[], options?: ErrorOptions) {
    const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`
    super(`${count} in ${where}:\n\n${formatProblems(problems)}`, options)
    this.where = where
    this.problems = problems
  }
}

const MAX_WIDTH = 100
const LABEL_WIDTH = 10

/** A variable that is required. */
export const describeUnset = (place: string, expected: string): Problem => ({
  place,
  found: 'not set',
  expected,
  todo: 'Set it in the environment or in a .env file in this folder.',
})

/** Formats problems for a terminal: the place on its own line, and what was found, expected and to do below it. */
export function formatProblems(problems: readonly Problem[], width = MAX_WIDTH): string {
  return problems.map((problem) => formatProblem(problem, Math.min(width, MAX_WIDTH))).join('\n\n')
}

function formatProblem({ place, found, expected, todo }: Problem, width: number): string {
  const room = width - LABEL_WIDTH - 4
  const lines = [
    `  ${place}`,
    ...toLabelledLines('found', found, room),
    ...toLabelledLines('expected', expected, room),
  ]
  if (todo !== null) lines.push(...toLabelledLines('to do', todo, room))
  return lines.join('\n')
}

function toLabelledLines(label: string, text: string, room: number): string[] {
  return text
    .split('\n')
    .flatMap((line, index, all) =>
      isPointedAt(line, all[index + 1]) ? [line] : wrapAnsi(line, room).split('\n'),
    )
    .map((line, index) => `    ${(index === 0 ? label : '').padEnd(LABEL_WIDTH)}${line}`.trimEnd())
}

/** A caret would point elsewhere if its line were wrapped. */
const isPointedAt = (line: string, next: string | undefined): boolean =>
  [line, next ?? ''].some((one) => /^\s*\^\s*$/.test(one))
