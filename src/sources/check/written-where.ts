import type { SourceMapping } from '../../domain/mapping.ts'
import { listConditions, nameIn, type Token, tokenizeCode } from '../expression.ts'
import type { MappedCell, Source } from '../source-model.ts'
import type { SourceFinding } from '../problems.ts'
import { replaceTable } from '../replace-table.ts'

type Writing = Pick<Source, 'name' | 'table' | 'outputs' | 'touches' | 'freshness'>

/**
 * Finds what `where` reads and a source writes, this one or another: such a row leaves the source when it is written, by
 * another source before it was picked. Of the columns that are filled, only a condition that they are blank: one on their
 * values may be meant. Pure.
 * @param others the other sources of the configuration
 */
export function findWrittenInWhere(
  source: Writing & Pick<Source, 'mapping'>,
  others: readonly Writing[] = [],
): SourceFinding[] {
  return listConditions(source.mapping).flatMap((condition) =>
    findWrittenInCondition(source, condition, others),
  )
}

function findWrittenInCondition(
  source: Writing & Pick<Source, 'mapping'>,
  [place, where]: readonly [string, string],
  others: readonly Writing[],
): SourceFinding[] {
  const own = { ...listWritten(source, source.mapping, where), by: 'the source', set: 'each write sets' }
  const all = [
    { writer: source, ...own },
    ...others.map((writer) => {
      const by = `the source ${writer.name}`
      return { writer, ...listWritten(writer, source.mapping, where, source), by, set: `${by} sets` }
    }),
  ]
  return all.flatMap(({ writer, touched, filled, by, set }) => {
    const isOwn = writer === source
    const leaves = isOwn ? 'it is written' : `${by} writes`
    const add = (reads: readonly Read[], why: string, todo: string): SourceFinding[] =>
      reads.length === 0
        ? []
        : [
            {
              place,
              found: `${where}\na condition on ${[...new Set(reads.map(({ text }) => text))].join(', ')}, which ${why}`,
              expected: 'a condition on columns that Fillrate does not write',
              todo,
            },
          ]
    const cells = touched.map(({ cell }) => cell)
    const isHere = writer.table.sql === source.table.sql
    return [
      ...add(
        touched,
        `${set}: a row leaves ${isOwn ? 'the' : 'this'} source when ${leaves}`,
        isHere ? describeRemedy(source, writer, cells) : describeRemedyElsewhere(touched),
      ),
      ...add(
        filled,
        `${by} fills: a row leaves ${isOwn ? 'the' : 'this'} source when ${leaves}, and is not ${isOwn ? 'refreshed' : 'picked any more'}`,
        'Leave that out: a value that is there is kept, and a row without blanks is not picked.',
      ),
    ]
  })
}

/** Describes what `where` reads and another source writes, for the report of a run; null: nothing. Pure. */
export function describeWrittenByOthers(
  source: Writing & Pick<Source, 'mapping'>,
  sources: readonly Writing[],
): string | null {
  const others = sources.filter(({ name }) => name !== source.name)
  const found = findWrittenInWhere({ ...source, outputs: [], touches: [] }, others)
  if (found.length === 0) return null
  const texts = found.map((one) => one.found.split('\n').at(-1) ?? one.found)
  return `${source.name}: its \`where\` is ${texts.join(', and ')} (\`fillrate check\` says what to do)`
}

const isTime = ({ path, type }: MappedCell): boolean =>
  path.length === 0 && /^(?:timestamptz|timestamp|date)$/.test(type.fit.kind)

function describeRemedyElsewhere(touched: readonly Read[]): string {
  const stamp = touched.find(({ cell }) => isTime(cell))
  if (stamp === undefined) return 'Leave that out: Fillrate knows which rows it has enriched.'
  return `Write freshness: { read: ${quoteText(stamp.text)} } in its place: a time that Fillrate has set does not count there.`
}

/** A cell that a condition reads, and how it names it. */
interface Read {
  readonly cell: MappedCell
  readonly text: string
  /** The index of the token after it. */
  readonly end: number
}

/** @param reader the source of the condition, if another one writes */
function listWritten(
  writer: Pick<Source, 'table' | 'outputs' | 'touches'>,
  { joins }: Pick<SourceMapping, 'joins'>,
  where: string,
  reader: Pick<Source, 'table'> = writer,
): { readonly touched: readonly Read[]; readonly filled: readonly Read[] } {
  const tokens = tokenizeCode(where)
  const isOwnTable = writer.table.sql === reader.table.sql
  const aliases = isOwnTable
    ? ['t']
    : [...listAliases(joins ?? '', writer.table, true), ...listAliases(where, writer.table)]
  // Without an alias, a column of the source's own table is meant.
  const isBare = (cell: MappedCell): boolean =>
    isOwnTable || !reader.table.columns.some(({ name }) => name === cell.attribute)
  const reads = (cell: MappedCell): Read[] =>
    aliases.length === 0 ? [] : listReads(tokens, cell, { aliases, isBare: isBare(cell) })
  return {
    touched: writer.touches.flatMap(reads),
    filled: writer.outputs.flatMap(reads).filter(({ end }) => isBlankTest(tokens, end)),
  }
}

/** The names under which an SQL text reads a table. */
function listAliases(text: string, table: Writing['table'], isJoins = false): string[] {
  const marked = replaceTable(text, table, '(@)', { isJoins })
  if (marked === null) return []
  const tokens = tokenizeCode(marked)
  return tokens.flatMap(({ text: word }, at) => {
    if (word !== '@') return []
    const next = tokens[at + 2]
    return nameIn(next?.text.toLowerCase() === 'as' ? tokens[at + 3] : next) ?? []
  })
}

const quoteText = (text: string): string => `'${text.replaceAll("'", String.raw`\'`)}'`

function describeRemedy(
  { freshness }: Pick<Source, 'freshness'>,
  { touches }: Pick<Source, 'touches'>,
  read: readonly MappedCell[],
): string {
  if (freshness?.cell && read.some((cell) => cell.column === freshness.cell?.column))
    return 'Leave that out: `freshness` does it.'
  const stamp = read.find(isTime) ?? touches.find(isTime) ?? read.find(({ path }) => path.length > 0)
  if (stamp === undefined)
    return "Keep the time of the enrichment in a column, and write freshness: { column: 'enriched_at' } in its place."
  return `Write freshness: { column: ${quoteText(stamp.column)} } in its place.`
}

/** Each mention of the cell, of a parent of it, or of a part, under one of the aliases, or without one. */
function listReads(
  tokens: readonly Token[],
  cell: MappedCell,
  { aliases, isBare }: { readonly aliases: readonly string[]; readonly isBare: boolean },
): Read[] {
  return tokens.flatMap((token, at) => {
    if (nameIn(token) !== cell.attribute || tokens[at + 1]?.text === '.') return []
    const alias = tokens[at - 1]?.text === '.' ? nameIn(tokens[at - 2]) : null
    if (alias === null ? !isBare : !aliases.includes(alias)) return []
    const { keys, end } = readKeys(tokens, at + 1)
    if (!keys.every((key, depth) => depth >= cell.path.length || key === cell.path[depth])) return []
    const prefix = alias === null || alias === 't' ? '' : `${tokens[at - 2]?.text}.`
    return [{ cell, text: `${prefix}${cell.column}`, end }]
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
