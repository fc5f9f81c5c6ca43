/** One mismatch between a source's mapping and the live database. */
export interface SourceProblem {
  readonly source: string
  /** Inside the source: `table`, `outputs.title`, `inputs.email`. */
  readonly place: string
  /** The current state. Lines may follow, with a caret under the place. */
  readonly found: string
  readonly expected: string
  readonly todo: string
}

/** The mapping cannot be used on this database; nothing was run. The message is formatted for a terminal. */
export class SourceProblems extends Error {
  override readonly name = 'SourceProblems'
  readonly problems: readonly SourceProblem[]

  constructor(problems: readonly SourceProblem[], options?: ErrorOptions) {
    super(problems.map(formatProblem).join('\n\n'), options)
    this.problems = problems
  }
}

function formatProblem({ source, place, found, expected, todo }: SourceProblem): string {
  const indented = (text: string): string => text.replaceAll('\n', '\n              ')
  return [
    `  sources.${source}.${place}`,
    `    found     ${indented(found)}`,
    `    expected  ${indented(expected)}`,
    `    to do     ${indented(todo)}`,
  ].join('\n')
}

/** Collects the problems of one source, to report all of them at once. */
export class ProblemList {
  readonly problems: SourceProblem[] = []
  readonly #source: string

  constructor(source: string) {
    this.#source = source
  }

  add(place: string, found: string, expected: string, todo: string): void {
    this.problems.push({ source: this.#source, place, found, expected, todo })
  }
}
