import wrapAnsi from 'wrap-ansi'
import { BY_KIND } from '../domain/identifiers/kind.ts'
import { formatCount, formatPercent } from '../util/format.ts'
import { sanitize } from '../util/text.ts'
import { FIRST_BUDGET, toOutputConfig, toServicesConfig, toSourceConfig } from './config-object.ts'
import { indent, keyLiteral, toLiteral } from './literals.ts'
import type { FoundServices, ProposedOutput, ProposedSource, SkippedTable, UnreadTable } from './proposal.ts'
import { type RepeatedSources, SCHEMA_MARK, groupRepeated } from './repeated-schemas.ts'
import { BUILT_IN_ONLY } from './services.ts'
import type { AcceptedSource } from './verify.ts'

const INTRODUCTION = [
  'Proposed by `fillrate init` from the tables and a few rows of each. Review and edit it; `fillrate check` and `fillrate plan` are free. In every expression, `t` is the table.',
  'With `changedAt`, a pass reads only changed rows. In `outputs`, the column is on the left, the field of the record on the right. Only blank cells are written, from records of any confidence: see that of a dry run, then set `minConfidence` (0 to 1) above `outputs`, or in one. A `map` has the values that the column accepts; others are skipped. A `group` is written together, or not at all.',
]
const BUDGET =
  'Maximum lookups per run. Start with a small run, and raise this once you have seen the results.'
/** Of what may say who is left out. */
const UNREAD =
  'This role may not read these tables, so nothing below depends on them. Grant them and let `fillrate init` propose again:'
const LEFT =
  'These tables hold people or companies, too, and are left for the reason beside them. If you mean one: `fillrate init TABLE --out FILE`.'
const SERVICES =
  'The environment has a key for each of these. A row goes on to the next one where a service finds nothing for it: ' +
  'put the cheapest first. One without a module speaks the built-in interface; examples/services of the package ' +
  'has descriptions to copy into services/.'

/** The text of a fillrate.config.ts, with a reason beside each line. Pure. */
export function renderConfig(
  accepted: readonly AcceptedSource[],
  found: FoundServices = BUILT_IN_ONLY,
  beside: {
    readonly unread: readonly UnreadTable[]
    /** Tables that are sources only if a person says so. */
    readonly left: readonly SkippedTable[]
  } = { unread: [], left: [] },
): string {
  const { unread, left } = beside
  const line = ({ table, reason }: { readonly table: string; readonly reason: string | null }): string[] =>
    toComment(reason === null ? table : `${table}: ${reason}.`)

  const services = Object.entries(toServicesConfig(found)).flatMap(([name, value]) => [
    ...(found.isNamed ? toComment(SERVICES) : []),
    `${name}: ${toLiteral(value)},`,
    '',
  ])
  const { repeated, others } = groupRepeated(accepted)
  const calls = repeated.flatMap(({ name, schemas }) =>
    schemas.map((schema) => `...${name}(${toLiteral(schema)}),`),
  )
  const sources = [...(calls.length === 0 ? [] : [calls.join('\n')]), ...others.map(sourceText)].join('\n\n')
  return [
    `import { ${repeated.length === 0 ? '' : 'type ConfigInput, '}defineConfig } from 'fillrate'`,
    '',
    ...repeated.map(repeatedText),
    ...INTRODUCTION.flatMap(toComment),
    ...(unread.length === 0 ? [] : toComment(UNREAD)),
    ...unread.flatMap(({ table, why }) => line({ table, reason: why })),
    ...(left.length === 0 ? [] : toComment(LEFT)),
    ...left.flatMap(line),
    'export default defineConfig({',
    ...[...services, 'sources: {', indent(sources), '},', '', ...toComment(BUDGET)].map(indent),
    `  budget: ${FIRST_BUDGET},`,
    '})',
    '',
  ].join('\n')
}

/** The sources that several schemas share, as a function of the schema. */
function repeatedText({ name, schemas, sources }: RepeatedSources): string {
  const lines = [
    ...toComment(
      `${schemas.length} schemas have the same tables, as those of tenants do: their sources, by the name of the schema.`,
    ),
    `const ${name} = (schema: string): ConfigInput['sources'] => ({`,
    ...indent(sources.map(sourceText).join('\n\n')).split('\n'),
    '})',
    '',
  ]
  // In a comment there is no schema to put in.
  const schemaIn = (line: string): string => (line.trimStart().startsWith('//') ? 'SCHEMA' : '${schema}')
  return lines.map((line) => line.replaceAll(SCHEMA_MARK, schemaIn(line))).join('\n')
}

function sourceText({ source, coverage, isReviewed }: AcceptedSource): string {
  const { kind, table, notes, touch } = source
  const before: Readonly<Record<string, readonly string[]>> = {
    reviewed: toComment(
      'Nothing is looked up or written until a person has read this and taken the line out.',
    ),
    key: toComment('The table has no primary key; this unique index identifies its rows.'),
    inputs: [...questionLines(source), ...toComment(describeIdentifiers(source))],
    freshness: toComment('A row with a recent stamp is left alone; a write sets it.'),
  }
  const properties = Object.entries(toSourceConfig(source, isReviewed)).flatMap(([name, value]) => [
    ...(before[name] ?? []),
    ...(name === 'outputs'
      ? ['outputs: {', ...outputLines(source, coverage).map(indent), '},']
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
  ].join('\n')
}

/** What divides the rows: what is left out, and what is read as any other. */
function questionLines({ questions }: ProposedSource): string[] {
  if (questions.length === 0) return []
  const advice =
    'What divides the rows, and how many of the sample it is. What is left out is a condition of `where`: take it out where the rows belong in. Add that of others to leave them out:'
  return [
    ...toComment(advice),
    ...questions.flatMap(({ when, leftOut, keep, isLeftOut }) => [
      `// ${formatCount(leftOut).padStart(7)}  ${isLeftOut ? 'left out' : 'read'}: ${sanitize(when)}`,
      ...(isLeftOut ? [] : `            and ${keep}`.replaceAll(/^/gm, '// ').split('\n')),
    ]),
  ]
}

/** How many sampled rows each identifier would look up. */
function describeIdentifiers({ sample }: ProposedSource): string {
  if (sample.rows === 0) return 'No row was sampled.'
  const counts = Object.entries(BY_KIND).flatMap(([name, label]) => {
    const count = sample.identifiedBy[name] ?? 0
    return count === 0 ? [] : [`${formatCount(count)} ${label}`]
  })
  return `The first usable one is looked up. Of ${formatCount(sample.rows)} sampled rows: ${counts.join(', ')}.`
}

/** Each output with its fill rate and type, and each column that is not filled, with the reason. */
function outputLines(source: ProposedSource, coverage: AcceptedSource['coverage']): string[] {
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
    ...(output ? property(output).replaceAll(/^/gm, '// ').split('\n') : []),
  ])
  return [...written, ...skipped]
}

const COMMENT_WIDTH = 88

const toComment = (text: string): string[] =>
  wrapAnsi(text, COMMENT_WIDTH)
    .split('\n')
    .map((line) => `// ${line}`)
