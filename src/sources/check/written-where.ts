import { isFiller, type Token, tokenize } from '../expression.ts'
import type { MappedCell, Source } from '../source-model.ts'
import type { SourceProblem } from '../problems.ts'
import { columnNameIn } from '../triggers/columns.ts'

type Finding = Omit<SourceProblem, 'source'>

/**
 * Finds what a source writes and its own `where` reads: such a row leaves the source when it is written. Of the columns that
 * it fills, only a condition that they are blank: one on their values may be meant. Pure.
 */
export function findWrittenInWhere(
  source: Pick<Source, 'mapping' | 'outputs' | 'touches' | 'freshness'>,
): Finding[] {
  const { where } = source.mapping
  if (where === null) return []
  const tokens = tokenize(where).tokens.filter((token) => !isFiller(token))
  const add = (columns: readonly MappedCell[], why: string, todo: string): Finding[] =>
    columns.length === 0
      ? []
      : [
          {
            place: 'where',
            found: `${where}\na condition on ${columns.map(({ column }) => column).join(', ')}, ${why}`,
            expected: 'a condition on columns that Fillrate does not write',
            todo,
          },
        ]
  const touched = source.touches.filter((cell) => listReads(tokens, cell).length > 0)
  const filled = source.outputs.filter((cell) =>
    listReads(tokens, cell).some((at) => isBlankTest(tokens, at)),
  )
  return [
    ...add(
      touched,
      'which each write sets: a row leaves the source when it is written',
      describeRemedy(source, touched),
    ),
    ...add(
      filled,
      'which the source fills: a row leaves the source when it is written, and is not refreshed',
      'Leave that out: a value that is there is kept, and a row without blanks is not picked.',
    ),
  ]
}

function describeRemedy(
  { freshness, touches }: Pick<Source, 'freshness' | 'touches'>,
  read: readonly MappedCell[],
): string {
  if (freshness !== null && read.some((cell) => cell.column === freshness.cell.column))
    return 'Leave that out: `freshness` does it.'
  const isTime = ({ path, type }: MappedCell): boolean =>
    path.length === 0 && /^(?:timestamptz|timestamp|date)$/.test(type.fit.kind)
  const stamp = read.find(isTime) ?? touches.find(isTime) ?? read.find(({ path }) => path.length > 0)
  if (stamp === undefined)
    return "Keep the time of the enrichment in a column, and write freshness: { column: 'enriched_at' } in its place."
  return `Write freshness: { column: '${stamp.column.replaceAll("'", String.raw`\'`)}' } in its place.`
}

/** The indexes of the tokens after each mention of the cell, of a parent of it, or of a part. */
function listReads(tokens: readonly Token[], cell: MappedCell): number[] {
  return tokens.flatMap((token, at) => {
    if (columnNameIn(token) !== cell.attribute || tokens[at + 1]?.text === '.') return []
    if (tokens[at - 1]?.text === '.' && columnNameIn(tokens[at - 2]) !== 't') return []
    const { keys, end } = readKeys(tokens, at + 1)
    return keys.every((key, depth) => depth >= cell.path.length || key === cell.path[depth]) ? [end] : []
  })
}

/** The keys that follow a json column: `-> 'a' ->> 'b'`, `#>> '{a,b}'`, `? 'a'`. */
function readKeys(
  tokens: readonly Token[],
  start: number,
): { readonly keys: string[]; readonly end: number } {
  const keys: string[] = []
  let at = start
  for (;;) {
    let next = at
    while (tokens[next]?.kind === 'symbol' && /^[-#>?]$/.test(tokens[next]?.text ?? '')) next++
    const key = tokens[next]
    if (next === at || key?.kind !== 'string') return { keys, end: at }
    const text = key.text.slice(1, -1).replaceAll("''", "'")
    if (tokens[at]?.text === '#') keys.push(...text.replaceAll(/[{}"]/g, '').split(','))
    else keys.push(text)
    at = next + 1
  }
}

/** Whether a test for a blank follows, perhaps outside a function: `is null`, `coalesce(…, '') = ''`. */
const isBlankTest = (tokens: readonly Token[], at: number): boolean =>
  /^(?:(?:, '' )?\) )*(?:is null\b|= '')/i.test(
    tokens
      .slice(at, at + 8)
      .map(({ text }) => text)
      .join(' '),
  )
