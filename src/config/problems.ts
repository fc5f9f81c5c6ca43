/** One thing that is wrong with the configuration or the environment, for the person who can put it right. */
export interface Problem {
  /** Where: `sources.contacts.outputs.title.policy`, `FILLRATE_PORT`, `fillrate.config.json:3:14`. */
  readonly place: string
  /** What is there now, without secrets. Lines of the file may follow, with a caret under the place. */
  readonly found: string
  readonly expected: string
  /** What to do about it, where that says more than `expected` does. */
  readonly todo: string | null
}

/** A configuration or environment that can't be used: nothing has been run. Its message is fit for a terminal. */
export class ConfigProblems extends Error {
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

const width = 100
const labelWidth = 10

/** The problems for a terminal: the place on a line of its own, and what was found, expected and to do under it. */
export function formatProblems(problems: readonly Problem[]): string {
  return problems.map(formatProblem).join('\n\n')
}

function formatProblem({ place, found, expected, todo }: Problem): string {
  const lines = [`  ${place}`, ...labelled('found', found), ...labelled('expected', expected)]
  if (todo !== null) lines.push(...labelled('to do', todo))
  return lines.join('\n')
}

function labelled(label: string, text: string): string[] {
  return text
    .split('\n')
    .flatMap((line, index) => (index === 0 ? wrap(line) : [line]))
    .map((line, index) => `    ${(index === 0 ? label : '').padEnd(labelWidth)}${line}`.trimEnd())
}

function wrap(text: string): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width - labelWidth - 4) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line]
}
