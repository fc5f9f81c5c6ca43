import wrapAnsi from 'wrap-ansi'
import { formatCount, formatPercent, sanitize } from '../util/text.ts'
import type { ProposedCondition, Proposal, ProposedOutput, ProposedSource } from './proposal.ts'

/** Enough to see results, and cheap if the configuration is wrong. */
const FIRST_BUDGET = 100

const INTRODUCTION = [
  'A first draft, written by `fillrate init` from the tables of the database and some rows of each. A run leaves out every source with `reviewed: false`: read the source, choose whom it must not look up, then take out that line. `fillrate check` and `fillrate plan` are free.',
  'In every SQL expression, `t` is the table. `where` has the conditions that a row must meet, all of them: those that begin with `//` are not in force, and behind each is how many rows it leaves out. `inputs` identify a row; the first usable one is looked up. In `outputs`, the column is on the left, and the field of the record that fills it on the right; only blank cells are written. A `map` has the values of the service on the left, to be changed to its words, and the labels of the column on the right; other values are not written.',
]
const LEFT =
  'These tables are no sources, for the reason behind each. Where statements stand below one, run them as its owner, then `fillrate init` again.'

/** The text of a configuration, which a person can understand who reads nothing else. Pure. */
export const renderConfig = ({ sources, left }: Proposal): string =>
  [
    `import { defineConfig } from 'fillrate'`,
    '',
    ...INTRODUCTION.flatMap((text, n) => [...(n === 0 ? [] : ['//']), ...toComment(text)]),
    ...(left.length === 0 ? [] : ['//', ...toComment(LEFT)]),
    ...left.flatMap(({ table, reason, grants }) => [
      ...toComment(`${table}: ${reason}.`),
      ...renderGrants(grants),
    ]),
    'export default defineConfig({',
    '  sources: {',
    sources.map((source) => indent(renderSource(source).map(indent).join('\n'))).join('\n\n'),
    '  },',
    '',
    '  // The most lookups of a run. Raise it once you have seen the results of a first one.',
    `  budget: ${FIRST_BUDGET},`,
    '})',
    '',
  ].join('\n')

const renderGrants = (grants: readonly string[]): string[] => grants.map((grant) => `//   ${sanitize(grant)}`)

function renderSource(source: ProposedSource): string[] {
  const { name, kind, table, key, inputs, outputs, grants } = source
  return [
    ...toComment(`${kind === 'person' ? 'People' : 'Companies'} in ${table}.`),
    ...(grants.length === 0 ? [] : toComment('This role lacks rights on it. Run as its owner:')),
    ...renderGrants(grants),
    `${toKey(name)}: {`,
    '  reviewed: false,',
    `  kind: '${kind}',`,
    `  table: ${toLiteral(table)},`,
    `  key: ${key.length === 1 ? toLiteral(key[0] ?? '') : `[${key.map(toLiteral).join(', ')}]`},`,
    ...renderWhere(source).map(indent),
    '  inputs: {',
    ...inputs.map(
      ({ input, sql, usable }) =>
        `    ${input}: ${toLiteral(sql)}, // usable in ${formatPercent(usable)} of the sampled rows`,
    ),
    '  },',
    '  outputs: {',
    ...outputs.flatMap(renderOutput).map((line) => indent(indent(line))),
    '  },',
    '},',
  ]
}

function renderWhere({ conditions, counted }: ProposedSource): string[] {
  if (counted === null) return toComment('Counting took too long, so there is no condition yet: where: [ … ]')
  if (conditions.length === 0) return []
  const rows = `${formatCount(counted.rows)} ${counted.of === 'sample' ? 'sampled rows' : 'rows'}`
  const render = ({ keep, leaves }: ProposedCondition): string =>
    `${toLiteral(keep)}, // leaves out ${formatCount(leaves)}`
  const offered = conditions.filter(({ state }) => state === 'offered').map(render)
  return [
    `// Of ${rows}:`,
    'where: [',
    ...conditions.filter(({ state }) => state === 'active').map((condition) => `  ${render(condition)}`),
    ...(offered.length === 0
      ? []
      : ['  // Take away the // before each condition whose rows must not be looked up:']),
    ...offered.map((line) => `  // ${line}`),
    '],',
  ]
}

function renderOutput({ column, field, filled, map }: ProposedOutput): string[] {
  const note = `// filled in ${formatPercent(filled)} of the sampled rows`
  if (map === null) return [`${toKey(column)}: '${field}', ${note}`]
  const labels = Object.entries(map).map(([value, label]) => `    ${toKey(value)}: ${toLiteral(label)},`)
  return [note, `${toKey(column)}: {`, `  field: '${field}',`, '  map: {', ...labels, '  },', '},']
}

const COMMENT_WIDTH = 100

const toComment = (text: string): string[] =>
  wrapAnsi(sanitize(text), COMMENT_WIDTH)
    .split('\n')
    .map((line) => `// ${line}`)

const indent = (text: string): string => text.replaceAll(/^(?=.)/gm, '  ')

/** Text as a literal of one line, with the quotes that need the fewest escapes. */
const toLiteral = (text: string): string => (/['\n\r\\]/.test(text) ? JSON.stringify(text) : `'${text}'`)

/** A name of a property, quoted only where it needs quotes. */
const toKey = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : toLiteral(name))
