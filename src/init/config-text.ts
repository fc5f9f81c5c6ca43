import wrapAnsi from 'wrap-ansi'
import { BY_KIND } from '../domain/identifiers/kind.ts'
import { formatCount, formatPercent } from '../util/format.ts'
import { sanitize } from '../util/text.ts'
import { FIRST_BUDGET, toOutputConfig, toServicesConfig, toSourceConfig } from './config-object.ts'
import { indent, keyLiteral, toLiteral } from './literals.ts'
import type { FoundServices, ProposedOutput, ProposedSource, UnreadTable } from './proposal.ts'
import { BUILT_IN_ONLY } from './services.ts'
import type { AcceptedSource } from './verify.ts'

const INTRODUCTION =
  'Proposed by `fillrate init` from the tables and a few rows of each. Review and edit it; `fillrate check` and ' +
  '`fillrate plan` are free. In every expression, `t` is the table.'
const BUDGET =
  'Maximum lookups per run. Start with a small run, and raise this once you have seen the results.'
/** Of what may say who is left out. */
const UNREAD =
  'This role may not read these tables, so nothing below depends on them. Grant them and let `fillrate init` propose again:'
const SERVICES =
  'The environment has a key for each of these. A row goes on to the next one where a service finds nothing for it: ' +
  'put the cheapest first. One without a module speaks the built-in interface; examples/services of the package ' +
  'has descriptions to copy into services/.'

/** The text of a fillrate.config.ts, with a reason beside each line. Pure. */
export function renderConfig(
  accepted: readonly AcceptedSource[],
  found: FoundServices = BUILT_IN_ONLY,
  unread: readonly UnreadTable[] = [],
): string {
  const services = Object.entries(toServicesConfig(found)).flatMap(([name, value]) => [
    ...(found.isNamed ? toComment(SERVICES) : []),
    `${name}: ${toLiteral(value)},`,
    '',
  ])
  const sources = accepted.map((one, n) => sourceLines(one, n === 0).join('\n')).join('\n\n')
  return [
    "import { defineConfig } from 'fillrate'",
    '',
    ...toComment(INTRODUCTION),
    ...toComment(unread.length === 0 ? '' : UNREAD),
    ...unread.flatMap(({ table, why }) => toComment(why === null ? table : `${table}: ${why}.`)),
    'export default defineConfig({',
    ...[...services, 'sources: {', indent(sources), '},', '', ...toComment(BUDGET)].map(indent),
    `  budget: ${FIRST_BUDGET},`,
    '})',
    '',
  ].join('\n')
}

/** @param isFirst whether to include the comments that apply to every source */
function sourceLines(accepted: AcceptedSource, isFirst: boolean): string[] {
  const { source, isReviewed } = accepted
  const { kind, table, notes, touch } = source
  const forAll = {
    reviewed: 'No person has read this yet: nothing is looked up or written. Read it, and take the line out.',
    changedAt: 'A pass then reads only changed rows.',
    outputs:
      'Column on the left, field of the record on the right. Only blank cells are written, from records of any confidence: see that of a dry run, then set `minConfidence` (0 to 1) above `outputs`, or in one. A `map` has the values that the column accepts; others are skipped. A `group` is written together, or not at all.',
  }
  const before: Readonly<Record<string, string>> = {
    key: 'The table has no primary key; this unique index identifies its rows.',
    inputs: describeIdentifiers(source),
    freshness: 'A row with a recent stamp is left alone; a write sets it.',
    ...(isFirst && forAll),
  }
  const properties = Object.entries(toSourceConfig(source, isReviewed)).flatMap(([name, value]) => [
    ...(name === 'inputs' ? questionLines(source) : []),
    ...toComment(before[name] ?? ''),
    ...(name === 'outputs'
      ? ['outputs: {', ...outputLines(accepted).map(indent), '},']
      : [`${name}: ${toLiteral(value)},`]),
  ])
  const touchLines = touch && [
    '// If no trigger of yours sets it:',
    `// touch: ${toLiteral({ [touch.column]: touch.sql })},`,
  ]
  return [
    ...[`${kind === 'person' ? 'People' : 'Companies'} in ${table}.`, ...notes].flatMap(toComment),
    `${keyLiteral(source.name)}: {`,
    ...[...properties, ...(touchLines ?? [])].map(indent),
    '},',
  ]
}

/** What is not decided about the rows: what is left out until then, and what is read as any other. */
function questionLines({ questions, sample }: ProposedSource): string[] {
  const of = `of ${formatCount(sample.rows)} sampled rows`
  const advice = {
    true: `Not decided, and left out to be safe, ${of}. Where they belong in, take the condition out of \`where\`:`,
    false: `Not decided, and read, ${of}. To leave them out, add the condition to \`where\`:`,
  }
  return [true, false].flatMap((isLeftOut) => {
    const some = questions.filter((one) => one.isLeftOut === isLeftOut)
    if (some.length === 0) return []
    const lines = some.flatMap(({ when, leftOut, keep }) => [
      `${formatCount(leftOut).padStart(7)}  ${sanitize(when)}`,
      ...(isLeftOut ? [] : `and ${keep}`.split('\n').map((sql) => `           ${sql}`)),
    ])
    return [...toComment(advice[`${isLeftOut}`]), ...lines.map((line) => `// ${line}`)]
  })
}

/** How many sampled rows each identifier would look up. */
function describeIdentifiers({ sample, kind }: ProposedSource): string {
  if (sample.rows === 0) return 'No row was sampled.'
  const counts = Object.entries(BY_KIND).map(
    ([name, label]) => [sample.identifiedBy[name] ?? 0, label] as const,
  )
  const rest = sample.rows - counts.reduce((sum, [count]) => sum + count, 0)
  const parts = [...counts, [rest, 'have nothing usable'] as const].flatMap(([count, label]) =>
    count > 0 ? [`${formatCount(count)} ${label}`] : [],
  )
  const first = kind === 'person' ? 'The first usable one is looked up. ' : ''
  return `${first}Of ${formatCount(sample.rows)} sampled rows: ${parts.join(', ')}.`
}

/** Each output with its fill rate and type, and each column that is not filled, with the reason. */
function outputLines({ source, coverage }: AcceptedSource): string[] {
  const property = (output: ProposedOutput): string =>
    `${keyLiteral(output.column)}: ${toLiteral(toOutputConfig(output))},`
  const written = source.outputs.flatMap((output) => {
    const filled = coverage?.columns.find(({ column }) => column === output.column)?.filled
    const share = coverage && filled !== undefined ? filled / Math.max(1, coverage.eligible) : null
    const note = `${share === null ? '' : `${formatPercent(share)} filled, `}${sanitize(output.type)}`
    const line = property(output)
    return line.includes('\n') || line.length + note.length > COMMENT_WIDTH
      ? [...toComment(`${note}.`), line]
      : [`${line} // ${note}`]
  })
  // A column that may be right is a line to uncomment.
  const skipped = source.skippedColumns.flatMap(({ column, reason, output }) => [
    ...toComment(`${output ? 'Unsure,' : 'Not'} ${sanitize(column)}: it ${reason}.`),
    ...(output
      ? property(output)
          .split('\n')
          .map((line) => `// ${line}`)
      : []),
  ])
  return [...written, ...skipped]
}

const COMMENT_WIDTH = 88

/** Text as comment lines; none for an empty text. */
const toComment = (text: string): string[] =>
  text === ''
    ? []
    : wrapAnsi(text, COMMENT_WIDTH)
        .split('\n')
        .map((line) => `// ${line}`)
