import { basename } from 'node:path'
import type {
  ProposedOutput,
  ProposedService,
  ProposedSource,
  Question,
  ShippedService,
  SkippedColumn,
} from './proposal.ts'
import { formatCount, formatPercent } from '../util/format.ts'
import type { AcceptedSource } from './verify.ts'
import { FIRST_BUDGET } from './config-object.ts'
import { whereOf } from './questions.ts'
import { type RepeatedSources, SCHEMA_MARK, groupRepeated } from './repeated-schemas.ts'
import wrapAnsi from 'wrap-ansi'
import { sanitize } from '../util/text.ts'
import { keyLiteral, objectLiteral, packedLiteral, textLiteral } from './literals.ts'

/** Inputs go on one line only if they fit this width. */
const MAX_INLINE_WIDTH = 50

/** The services of a configuration: the module of one, or several with keys. */
export interface ConfigServices {
  readonly service: string | null
  readonly services: readonly ProposedService[]
  readonly shipped: readonly ShippedService[]
}

/** The text of a fillrate.config.ts, with a reason beside each line. Pure. */
export function renderConfig(
  accepted: readonly AcceptedSource[],
  { service, services, shipped }: ConfigServices = { service: null, services: [], shipped: [] },
): string {
  const { repeated, others } = groupRepeated(accepted)
  const blocks = others.map((one, n) => sourceConfigLines(one, n === 0 && repeated.length === 0).join('\n'))
  return [
    `import { ${repeated.length === 0 ? '' : 'type ConfigInput, '}defineConfig } from 'fillrate'`,
    '',
    ...repeated.flatMap(repeatedLines),
    ...commentLines(
      'Proposed by `fillrate init` from the tables and a few rows of each. Review and edit it; `fillrate check` and ' +
        '`fillrate plan` are free. In every expression, `t` is the table.',
      '',
    ),
    'export default defineConfig({',
    ...(service === null ? [] : [`  service: ${textLiteral(service)},`, '']),
    ...servicesLines(services),
    ...shipped.flatMap(({ name, path }) =>
      commentLines(
        `There is a key for ${name}, and a description of it: copy ${path} to services/${basename(path)}, and let \`fillrate init\` propose again.`,
        '  ',
      ),
    ),
    ...(shipped.length === 0 ? [] : ['']),
    '  sources: {',
    ...repeated.flatMap(({ name, schemas }) =>
      schemas.map((schema) => `    ...${name}(${textLiteral(schema)}),`),
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

/** The sources that several schemas share, as a function of the schema. */
function repeatedLines({ name, schemas, sources }: RepeatedSources): string[] {
  const lines = [
    ...commentLines(
      `${schemas.length} schemas have the same tables, as those of tenants do: their sources, by the name of the schema.`,
      '',
    ),
    `const ${name} = (schema: string): ConfigInput['sources'] => ({`,
    ...sources
      .flatMap((one, n) => sourceConfigLines(one, n === 0))
      .map((line) => line.replaceAll(/^ {2}/gm, '')),
    '})',
    '',
  ]
  // In a comment there is no schema to put in.
  return lines.map((line) =>
    /^\s*\/\//.test(line)
      ? line.replaceAll(SCHEMA_MARK, 'SCHEMA')
      : line.replaceAll(SCHEMA_MARK, '${schema}'),
  )
}

function servicesLines(services: readonly ProposedService[]): string[] {
  if (services.length === 0) return []
  const advice =
    services.length === 1
      ? ''
      : ' A row goes on to the next one where a service finds nothing for it: put the cheapest first.'
  return [
    ...commentLines(`The environment has a key for each of these.${advice}`, '  '),
    '  services: {',
    ...services.map(
      ({ name, module }) => `    ${keyLiteral(name)}: ${module === null ? '{}' : textLiteral(module)},`,
    ),
    '  },',
    '',
  ]
}

/** @param isFirst whether to include the comments that apply to every source */
function sourceConfigLines(one: AcceptedSource, isFirst: boolean): string[] {
  const { source } = one
  const at = '      '
  const once = (text: string): string[] => (isFirst ? commentLines(text, at) : [])
  const property = (name: string, value: string): string => `${at}${name}: ${value},`
  const where = whereOf(source)
  const text = (name: 'joins' | 'changedAt'): string[] => {
    const value = source[name]
    return value === null ? [] : [property(name, textLiteral(value, `${at}  `))]
  }
  return [
    ...commentLines(`${source.kind === 'person' ? 'People' : 'Companies'} in ${source.table}.`, '    '),
    ...source.notes.flatMap((note) => commentLines(note, '    ')),
    `    ${keyLiteral(source.name)}: {`,
    property('kind', textLiteral(source.kind)),
    property('table', textLiteral(source.table)),
    ...text('joins'),
    ...keyLine(source, property),
    ...(where === null ? [] : [property('where', textLiteral(where, `${at}  `))]),
    ...questionLines(source, at),
    ...(source.changedAt === null ? [] : once('A pass then reads only changed rows.')),
    ...text('changedAt'),
    ...commentLines(describeIdentifiers(source), at),
    property(
      'inputs',
      objectLiteral(
        source.inputs.map(({ input, sql }) => [input, textLiteral(sql, `${at}    `)] as const),
        at,
        MAX_INLINE_WIDTH,
      ),
    ),
    ...(source.freshness === null ? [] : freshnessLines(source.freshness, at)),
    ...once('Column on the left, field of the record on the right. Only blank cells are written.'),
    `${at}outputs: {`,
    ...source.outputs.flatMap((output) => outputConfigLines(output, one, `${at}  `)),
    ...source.skippedColumns.flatMap((skipped) => skippedColumnLines(skipped, `${at}  `)),
    `${at}},`,
    ...touchLines(source, at),
    '    },',
  ]
}

/** What is not decided about the rows: what is left out until then, and what is read as any other. */
function questionLines({ questions, sample }: ProposedSource, at: string): string[] {
  const of = `of ${formatCount(sample.rows)} sampled rows`
  const line = ({ when, leftOut }: Question): string =>
    `${at}// ${formatCount(leftOut).padStart(7)}  ${sanitize(when)}`
  const [left, read] = [true, false].map((is) => questions.filter(({ isLeftOut }) => isLeftOut === is))
  return [
    ...(left === undefined || left.length === 0
      ? []
      : [
          ...commentLines(
            `Not decided, and left out to be safe, ${of}. Where they belong in, take the condition out of \`where\`:`,
            at,
          ),
          ...left.map(line),
        ]),
    ...(read === undefined || read.length === 0
      ? []
      : [
          ...commentLines(
            `Not decided, and read, ${of}. To leave them out, add the condition to \`where\`:`,
            at,
          ),
          ...read.flatMap((one) => [
            line(one),
            ...`and ${one.keep}`.split('\n').map((sql) => `${at}//            ${sql}`),
          ]),
        ]),
  ]
}

const freshnessLines = (column: string, at: string): string[] => [
  ...commentLines('A row with a recent stamp is left alone; a write sets it.', at),
  `${at}freshness: { column: ${textLiteral(column)} },`,
]

/** A column that is not filled, with the reason; as a line to uncomment, if it may be right. */
function skippedColumnLines({ column, reason, output }: SkippedColumn, at: string): string[] {
  if (output === undefined) return commentLines(`Not ${sanitize(column)}: it ${reason}.`, at)
  const lines = `${keyLiteral(column)}: ${outputLiteral(output, '')},`.split('\n')
  const [first = ''] = lines
  const said = `${sanitize(column)} ${reason}`
  return lines.length === 1 && first.length + reason.length + at.length < LINE_WIDTH
    ? [`${at}// ${first} // ${reason}`]
    : [...commentLines(`Unsure, ${said}:`, at), ...lines.map((line) => `${at}// ${line}`)]
}

function keyLine(source: ProposedSource, property: (name: string, value: string) => string): string[] {
  if (source.key === null) return []
  const columns = source.key.map((column) => textLiteral(column))
  return [
    ...commentLines('The table has no primary key; this unique index identifies its rows.', '      '),
    property('key', columns.length === 1 ? (columns[0] ?? '') : `[${columns.join(', ')}]`),
  ]
}

const IDENTIFIER_LABELS: Readonly<Record<string, string>> = {
  email: 'email',
  linkedin_url: 'profile URL',
  name_company: 'name and company',
  domain: 'domain',
}

/** How many sampled rows each identifier would look up. */
function describeIdentifiers({ sample, kind }: ProposedSource): string {
  if (sample.rows === 0) return 'No row was sampled.'
  const parts = Object.keys(IDENTIFIER_LABELS).flatMap((name) => {
    const n = sample.identifiedBy[name] ?? 0
    return n === 0 ? [] : [`${formatCount(n)} by ${IDENTIFIER_LABELS[name] ?? name}`]
  })
  const usable = Object.values(sample.identifiedBy).reduce((sum, n) => sum + n, 0)
  const rest = usable < sample.rows ? [`${formatCount(sample.rows - usable)} have nothing usable`] : []
  const first = kind === 'person' ? 'The first usable one is looked up. ' : ''
  return `${first}Of ${formatCount(sample.rows)} sampled rows: ${[...parts, ...rest].join(', ')}.`
}

function touchLines({ touch }: ProposedSource, at: string): string[] {
  if (touch === null) return []
  return [
    ...commentLines('If no trigger of yours sets it:', at),
    `${at}// touch: { ${keyLiteral(touch.column)}: ${textLiteral(touch.sql)} },`,
  ]
}

/** Line width of the generated file. */
const LINE_WIDTH = 100

/** Text as comment lines; none for an empty text. */
const commentLines = (text: string, at: string): string[] =>
  text === ''
    ? []
    : wrapAnsi(text, LINE_WIDTH - at.length - 3)
        .split('\n')
        .map((line) => `${at}// ${line}`)

/** One output of a source, with its fill rate and notes. Pure. */
function outputConfigLines(
  output: ProposedOutput,
  { source, coverage }: AcceptedSource,
  at: string,
): string[] {
  const { column } = output
  const filled = coverage?.columns.find((one) => one.column === column)?.filled
  const note = [
    ...(filled === undefined || coverage === null
      ? []
      : [`${formatPercent(coverage.eligible === 0 ? 0 : filled / coverage.eligible)} filled`]),
    sanitize(output.type),
  ].join(', ')
  const value = outputLiteral(output, at)
  const line = `${at}${keyLiteral(column)}: ${value},`
  const said = outputComment(output, source)
  const fits = !line.includes('\n') && line.length + note.length + 4 <= LINE_WIDTH + 10
  return fits
    ? [...commentLines(said, at), `${line} // ${note}`]
    : [...commentLines(`${note}.${said === '' ? '' : ` ${said}`}`, at), line]
}

/** The right side of an output. */
function outputLiteral(
  { field, map, sql, as, group, matches, byService }: ProposedOutput,
  at: string,
): string {
  if (byService) {
    const own = byService.map(([name, one]) => [name, outputLiteral(one, `${at}  `)] as const)
    return objectLiteral(own, at, LINE_WIDTH)
  }
  const entries: Array<readonly [string, string]> = [['field', textLiteral(field)]]
  if (map)
    entries.push([
      'map',
      packedLiteral(
        Object.entries(map).map(([from, to]) => [from, textLiteral(to)] as const),
        `${at}  `,
        LINE_WIDTH,
      ),
    ])
  if (sql !== undefined) entries.push(['sql', textLiteral(sql, `${at}    `)])
  if (as) entries.push(['as', textLiteral(as)])
  if (matches !== undefined) entries.push(['matches', `/${matches}/`])
  if (group !== undefined) entries.push(['group', textLiteral(group)])
  return entries.length === 1 ? textLiteral(field) : objectLiteral(entries, at, LINE_WIDTH)
}

/** An explanation at the first occurrence of an unusual option. */
function outputComment(output: ProposedOutput, { outputs }: ProposedSource): string {
  const isFirst = (test: (one: ProposedOutput) => boolean): boolean => outputs.find(test) === output
  if (output.map && isFirst((one) => one.map !== undefined))
    return 'Maps the service’s values to those the column accepts; others are skipped.'
  if (output.group !== undefined && isFirst((one) => one.group === output.group))
    return 'Written together, or not at all.'
  return ''
}
