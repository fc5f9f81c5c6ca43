import { basename } from 'node:path'
import wrapAnsi from 'wrap-ansi'
import { BY_KIND } from '../domain/identifiers/kind.ts'
import { formatCount, formatPercent } from '../util/format.ts'
import { sanitize } from '../util/text.ts'
import { FIRST_BUDGET, toOutputConfig, toServicesConfig, toSourceConfig } from './config-object.ts'
import { keyLiteral, LINE_WIDTH, toLiteral } from './literals.ts'
import type { FoundServices, ProposedOutput, ProposedSource, SkippedColumn, UnreadTable } from './proposal.ts'
import { type RepeatedSources, SCHEMA_MARK, groupRepeated } from './repeated-schemas.ts'
import { BUILT_IN_ONLY } from './services.ts'
import type { AcceptedSource } from './verify.ts'

const INTRODUCTION =
  'Proposed by `fillrate init` from the tables and a few rows of each. Review and edit it; `fillrate check` and ' +
  '`fillrate plan` are free. In every expression, `t` is the table.'

/** The text of a fillrate.config.ts, with a reason beside each line. Pure. */
export function renderConfig(
  accepted: readonly AcceptedSource[],
  found: FoundServices = BUILT_IN_ONLY,
  unread: readonly UnreadTable[] = [],
): string {
  const { repeated, others } = groupRepeated(accepted)
  const blocks = others.map((one, n) => sourceLines(one, n === 0 && repeated.length === 0).join('\n'))
  return [
    `import { ${repeated.length === 0 ? '' : 'type ConfigInput, '}defineConfig } from 'fillrate'`,
    '',
    ...repeated.flatMap(repeatedLines),
    ...commentLines(INTRODUCTION, ''),
    ...unreadLines(unread),
    'export default defineConfig({',
    ...servicesLines(found),
    '  sources: {',
    ...repeated.flatMap(({ name, schemas }) =>
      schemas.map((schema) => `    ...${name}(${toLiteral(schema)}),`),
    ),
    ...(blocks.length === 0 ? [] : [blocks.join('\n\n')]),
    '  },',
    '',
    ...commentLines(
      'Maximum lookups per run. Start with a small run, and raise this once you have seen the results.',
      '  ',
    ),
    `  budget: ${FIRST_BUDGET},`,
    '})',
    '',
  ].join('\n')
}

/** What may say who is left out, and was not read. */
const unreadLines = (unread: readonly UnreadTable[]): string[] =>
  unread.length === 0
    ? []
    : [
        ...commentLines(
          'This role may not read these tables, so nothing below depends on them. Grant them and let `fillrate init` propose again:',
          '',
        ),
        ...unread.flatMap(({ table, why }) => commentLines(`${table}${why === null ? '' : `: ${why}.`}`, '')),
      ]

/** The sources that several schemas share, as a function of the schema. */
function repeatedLines({ name, schemas, sources }: RepeatedSources): string[] {
  const lines = [
    ...commentLines(
      `${schemas.length} schemas have the same tables, as those of tenants do: their sources, by the name of the schema.`,
      '',
    ),
    `const ${name} = (schema: string): ConfigInput['sources'] => ({`,
    ...sources.flatMap((one, n) => sourceLines(one, n === 0)).map((line) => line.replaceAll(/^ {2}/gm, '')),
    '})',
    '',
  ]
  // In a comment there is no schema to put in.
  return lines.map((line) =>
    line.replaceAll(SCHEMA_MARK, line.trimStart().startsWith('//') ? 'SCHEMA' : '${schema}'),
  )
}

function servicesLines(found: FoundServices): string[] {
  const advice =
    found.services.length > 1
      ? ' A row goes on to the next one where a service finds nothing for it: put the cheapest first.'
      : ''
  return [
    ...Object.entries(toServicesConfig(found)).flatMap(([name, value]) => [
      ...(found.isNamed ? commentLines(`The environment has a key for each of these.${advice}`, '  ') : []),
      `  ${name}: ${toLiteral(value, '  ')},`,
      '',
    ]),
    ...found.shipped.flatMap(({ name, path }) => [
      ...commentLines(
        `There is a key for ${name}, and a description of it: copy ${path} to services/${basename(path)}, and let \`fillrate init\` propose again.`,
        '  ',
      ),
      '',
    ]),
  ]
}

/** @param isFirst whether to include the comments that apply to every source */
function sourceLines(accepted: AcceptedSource, isFirst: boolean): string[] {
  const { source, isReviewed } = accepted
  const at = '      '
  const before: Readonly<Record<string, string>> = {
    reviewed: isFirst
      ? 'No person has read this yet: nothing is looked up or written. Read it, and take the line out.'
      : '',
    key: 'The table has no primary key; this unique index identifies its rows.',
    changedAt: isFirst ? 'A pass then reads only changed rows.' : '',
    inputs: describeIdentifiers(source),
    freshness: 'A row with a recent stamp is left alone; a write sets it.',
    outputs: isFirst
      ? 'Column on the left, field of the record on the right. Only blank cells are written, from records of any confidence: see that of a dry run, then set `minConfidence` (0 to 1) above `outputs`, or in one. A `map` has the values that the column accepts; others are skipped. A `group` is written together, or not at all.'
      : '',
  }
  const properties = Object.entries(toSourceConfig(source, isReviewed)).flatMap(([name, value]) => [
    ...(name === 'inputs' ? questionLines(source, at) : []),
    ...commentLines(before[name] ?? '', at),
    ...(name === 'outputs' ? outputsLines(accepted, at) : [`${at}${name}: ${toLiteral(value, at)},`]),
  ])
  const { touch } = source
  return [
    ...[`${source.kind === 'person' ? 'People' : 'Companies'} in ${source.table}.`, ...source.notes].flatMap(
      (note) => commentLines(note, '    '),
    ),
    `    ${keyLiteral(source.name)}: {`,
    ...properties,
    ...(touch === null
      ? []
      : [
          ...commentLines('If no trigger of yours sets it:', at),
          `${at}// touch: ${toLiteral({ [touch.column]: touch.sql })},`,
        ]),
    '    },',
  ]
}

/** What is not decided about the rows: what is left out until then, and what is read as any other. */
function questionLines({ questions, sample }: ProposedSource, at: string): string[] {
  const of = `of ${formatCount(sample.rows)} sampled rows`
  const advice = [
    [true, `left out to be safe, ${of}. Where they belong in, take the condition out of \`where\``],
    [false, `read, ${of}. To leave them out, add the condition to \`where\``],
  ] as const
  return advice.flatMap(([isLeftOut, text]) => {
    const some = questions.filter((one) => one.isLeftOut === isLeftOut)
    if (some.length === 0) return []
    return [
      ...commentLines(`Not decided, and ${text}:`, at),
      ...some.flatMap(({ when, leftOut, keep }) => [
        `${at}// ${formatCount(leftOut).padStart(7)}  ${sanitize(when)}`,
        ...(isLeftOut ? [] : `and ${keep}`.split('\n').map((sql) => `${at}//            ${sql}`)),
      ]),
    ]
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
function outputsLines({ source, coverage }: AcceptedSource, at: string): string[] {
  const inner = `${at}  `
  const property = (output: ProposedOutput): string =>
    `${keyLiteral(output.column)}: ${toLiteral(toOutputConfig(output), inner)},`
  const written = source.outputs.flatMap((output) => {
    const filled = coverage?.columns.find(({ column }) => column === output.column)?.filled
    const share =
      coverage && filled !== undefined
        ? `${formatPercent(coverage.eligible === 0 ? 0 : filled / coverage.eligible)} filled, `
        : ''
    const [line, note] = [`${inner}${property(output)}`, `${share}${sanitize(output.type)}`]
    return line.includes('\n') || line.length + note.length > LINE_WIDTH
      ? [...commentLines(`${note}.`, inner), line]
      : [`${line} // ${note}`]
  })
  // A column that may be right is a line to uncomment.
  const skipped = source.skippedColumns.flatMap(({ column, reason, output }: SkippedColumn) => [
    ...commentLines(`${output ? 'Unsure,' : 'Not'} ${sanitize(column)}: it ${reason}.`, inner),
    ...(output
      ? property(output)
          .split(`\n${inner}`)
          .map((line) => `${inner}// ${line}`)
      : []),
  ])
  return [`${at}outputs: {`, ...written, ...skipped, `${at}},`]
}

/** Text as comment lines; none for an empty text. */
const commentLines = (text: string, at: string): string[] =>
  text === ''
    ? []
    : wrapAnsi(text, LINE_WIDTH - at.length - 3)
        .split('\n')
        .map((line) => `${at}// ${line}`)
