import { formatProblems } from '../../config/problems.ts'
import type { CheckedProblem, Finding, FindingVerdict } from '../check/finding.ts'
import { type Output, type TextStyle, padText, wrapText } from '../terminal.ts'
import { placeBeside } from './layout.ts'
import { sanitize } from '../../util/text.ts'
import { pluralize } from '../../util/format.ts'

const SIGNS: Readonly<Record<FindingVerdict, readonly [sign: string, style: TextStyle]>> = {
  ok: ['✓', 'good'],
  warning: ['!', 'warn'],
  error: ['✗', 'bad'],
  skipped: ['-', 'quiet'],
}

const NAME_COLUMNS = 16

/** One finding as a line, `✓ database  Postgres 18.1, app@localhost/crm`, with the fix below. */
export function renderFinding(finding: Finding, output: Output): string[] {
  const { paint, textColumns } = output
  const [sign, style] = SIGNS[finding.verdict]
  const name = sanitize(finding.name)
  const start = `${paint(style, sign)} ${padText(name, NAME_COLUMNS)}  `
  const room = Math.max(20, textColumns - NAME_COLUMNS - 4)
  const shown = selectShown(finding)
  const todo = (finding.todo ?? '').split('\n').flatMap((line) => wrapText(line, room))
  const lines = [...wrapText(sanitize(finding.text), room), ...todo.filter((line) => line !== '')]
  // The text of a longer name is printed below it.
  const isBeside = name.length <= NAME_COLUMNS
  return [
    ...(isBeside
      ? placeBeside(start, lines)
      : [start.trimEnd(), ...lines.map((line) => ' '.repeat(NAME_COLUMNS + 4) + line)]),
    ...(shown.length === 0 ? [] : ['', ...formatProblems(shown, textColumns).split('\n'), '']),
  ]
}

/** Grants are shown at the end, all together. Beside errors, a warning is marked as such. */
const selectShown = ({ problems, verdict }: Finding): readonly CheckedProblem[] =>
  problems
    .filter(({ grant }) => grant === undefined)
    .map((one) =>
      verdict === 'error' && one.verdict === 'warning' ? { ...one, place: `${one.place} (warning)` } : one,
    )

const isOwnError = ({ grant, verdict }: CheckedProblem): boolean =>
  grant === undefined && verdict !== 'warning'

/** The overall result. */
export function renderVerdict(findings: readonly Finding[], { paint }: Output): string[] {
  // Missing grants have a finding of their own.
  const failed = findings.filter(({ verdict }) => verdict === 'error')
  const wrong = failed.reduce(
    (sum, { problems }) => sum + (problems.length === 0 ? 1 : problems.filter(isOwnError).length),
    0,
  )
  if (wrong > 0) {
    const behind =
      failed.length > wrong ? `: ${failed.length} checks fail because of ${wrong === 1 ? 'it' : 'them'}` : ''
    return ['', paint('bad', `${pluralize(wrong, 'problem')} to fix before you can run${behind}.`)]
  }
  const isCreated = findings.find(({ name }) => name === 'schema')?.verdict !== 'warning'
  const next = isCreated
    ? `${paint('type', 'fillrate plan')} estimates lookups and cost.`
    : `${paint('type', 'fillrate migrate')} creates the schema "fillrate".`
  return ['', `${paint('good', isCreated ? 'Ready to run.' : 'Ready to migrate.')} Next: ${next}`]
}
