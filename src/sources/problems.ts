/** One thing that is wrong between a source's mapping and the live database. */
export interface SourceProblem {
  readonly source: string
  /** Inside the source: `table`, `outputs.title`, `inputs.email`. */
  readonly place: string
  /** What is there now. Lines may follow, with a caret under the place. */
  readonly found: string
  readonly expected: string
  readonly todo: string
}

/** A mapping that can't be used on this database. Nothing has been run. Its message is fit for a terminal. */
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

/** Gathers what is wrong with one source, so that all of it can be told at once. */
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
