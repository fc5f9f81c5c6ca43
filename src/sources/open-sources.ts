import { POLICY_RULES, type SourceMapping } from '../domain/mapping.ts'
import { tryQuery, quoteName, type Db } from './db.ts'
import { SourceProblems, type SourceProblem } from './problems.ts'
import { resolveSource } from './source.ts'
import type { MappedOutput, Source, WholeSource, OwnWrites, Writer, WrittenCell } from './source-model.ts'
import type { Column, Table } from './catalogue.ts'
import { nameIn, tokenizeCode, toWhereText, type Token } from './expression.ts'
import { inputsProbeSql } from './inputs.ts'
import { givenRowsSql } from './own-writes.ts'
import { findNamedColumns } from './triggers/columns.ts'

/** A source of the configuration that does not fit its table: it is left out. */
export interface BrokenSource {
  readonly mapping: SourceMapping
  readonly problems: readonly SourceProblem[]
}

/** The sources of a configuration, by name. */
export interface OpenedSources {
  readonly sources: Map<string, WholeSource>
  readonly brokenSources: Map<string, BrokenSource>
}

type Mappings = Readonly<Record<string, SourceMapping>>

/**
 * Opens each source. One that does not fit its table is left out, so that the others run.
 * @throws SourceProblems if none fits
 */
export async function openSources(db: Db, mappings: Mappings): Promise<OpenedSources> {
  const opened: (readonly Source[])[] = []
  const brokenSources = new Map<string, BrokenSource>()
  for (const mapping of Object.values(mappings))
    try {
      opened.push(await openSteps(db, mapping))
    } catch (error) {
      if (!(error instanceof SourceProblems)) throw error
      brokenSources.set(mapping.name, { mapping, problems: error.problems })
    }
  if (opened.length === 0 && brokenSources.size > 0)
    throw new SourceProblems([...brokenSources.values()].flatMap(({ problems }) => problems))
  // What one step fills may be what another is requested with: the inputs are those of the user for each of them.
  const linked = await linkSources(db, opened.map(toWhole))
  const sources = linked.map((whole, n) => ({ ...whole, steps: linkSteps(whole, opened[n] ?? []) }))
  return { sources: new Map(sources.map((source) => [source.name, source])), brokenSources }
}

/** The steps of a source as far as they could be resolved, and the problems of all of them, each once. */
export async function resolveSteps(
  db: Db,
  { steps, ...mapping }: SourceMapping,
): Promise<{ readonly steps: readonly Source[]; readonly problems: readonly SourceProblem[] }> {
  const resolved: Source[] = []
  const problems = new Map<string, SourceProblem>()
  // A list of their own: what was opened together is known by it (`runs/source-health.ts`).
  const own = [...steps]
  for (const step of own) {
    const opened = await resolveSource(db, { ...mapping, ...step, steps: own })
    if (opened.source !== null) resolved.push(opened.source)
    for (const problem of opened.problems) problems.set(`${problem.place} ${problem.found}`, problem)
  }
  return { steps: resolved, problems: [...problems.values()] }
}

async function openSteps(db: Db, mapping: SourceMapping): Promise<readonly Source[]> {
  const { steps, problems } = await resolveSteps(db, mapping)
  if (steps.length < mapping.steps.length || problems.length > 0) throw new SourceProblems(problems)
  return steps
}

/** The first step, with what all of them fill. */
function toWhole(steps: readonly Source[]): Source {
  const [first, ...others] = steps
  if (first === undefined) throw new Error('a source has one step at least')
  const outputs = [...first.outputs]
  for (const step of others) outputs.push(...notAmong(step.outputs, outputs))
  const mapping = { ...first.mapping, outputs: outputs.map((output) => output.mapping) }
  return { ...first, mapping, outputs }
}

/** The steps of a source, each with what it has to know of its neighbours. */
function linkSteps({ ownWrites, freshness, outputs }: Source, steps: readonly Source[]): Source[] {
  const filledBefore = new Set<string>()
  const linked = steps.map((step): Source => {
    const shared = step.freshness && { ...freshness, ...step.freshness }
    const own = { ...step, freshness: shared, ...(ownWrites && { ownWrites }) }
    const all = { ...own, ...(outputs.length > own.outputs.length && { allOutputs: outputs }) }
    const blanks = step.outputs.map((output) => toBlankOnly(output, filledBefore))
    for (const { column } of step.outputs) filledBefore.add(column)
    return step.mapping.step.isFirst ? all : { ...all, afterFound: { ...all, outputs: blanks } }
  })
  return linked.map(({ afterFound, ...step }, n) => {
    const laterOutputs = listLater(step, linked.slice(n + 1))
    const later = laterOutputs.length === 0 ? {} : { laterOutputs }
    return { ...step, ...later, ...(afterFound && { afterFound: { ...afterFound, ...later } }) }
  })
}

/** What this step alone fills it goes on refreshing: the record of another says nothing about it. */
function toBlankOnly(output: MappedOutput, filledBefore: ReadonlySet<string>): MappedOutput {
  const { readsLastWritten, readsEarlier } = POLICY_RULES[output.mapping.policy]
  if (readsLastWritten && !filledBefore.has(output.column)) return output
  const mapping = { ...output.mapping, policy: 'blank' as const }
  return { ...output, mapping, ...(!readsEarlier && { keepsEarlier: true }) }
}

/** What later steps fill of a row that goes on to them for its blank cells. */
function listLater(
  { outputs, mapping: { step } }: Source,
  [next, ...others]: readonly Source[],
): MappedOutput[] {
  if (next === undefined || step.next?.when !== 'blank') return []
  return notAmong([...(next.afterFound ?? next).outputs, ...listLater(next, others)], outputs)
}

const notAmong = (outputs: readonly MappedOutput[], known: readonly MappedOutput[]): MappedOutput[] =>
  outputs.filter((output) => known.every(({ column }) => column !== output.column))

/** The sources that a service fills, each at its step there. @param service null: the configuration has one */
export function toSteps({ sources, brokenSources }: OpenedSources, service: string | null): OpenedSteps {
  const isServed = ({ mapping }: BrokenSource): boolean =>
    mapping.steps.some(({ step }) => step.service === service)
  const steps = [...sources.values()].flatMap((source) =>
    source.steps.filter(({ mapping }) => mapping.step.service === service),
  )
  return {
    sources: new Map(steps.map((step) => [step.name, step])),
    brokenSources: new Map([...brokenSources].filter(([, broken]) => isServed(broken))),
  }
}

/** The sources of a configuration at the steps of one service, by name. */
export interface OpenedSteps {
  readonly sources: ReadonlyMap<string, Source>
  readonly brokenSources: ReadonlyMap<string, BrokenSource>
}

/** Opens the sources anew, in place of what was opened before. If none fits any more, the former ones stay. */
export async function reopenSources(db: Db, mappings: Mappings, all: OpenedSources): Promise<void> {
  try {
    const { sources, brokenSources } = await openSources(db, mappings)
    all.sources.clear()
    all.brokenSources.clear()
    for (const [name, source] of sources) all.sources.set(name, source)
    for (const [name, broken] of brokenSources) all.brokenSources.set(name, broken)
  } catch (error) {
    if (!(error instanceof SourceProblems)) throw error
  }
}

/**
 * Finds out for the sources of one configuration which of the columns that their inputs read are written by any of them.
 * Reads no row.
 * @param db plans the inputs: where a table cannot be replaced in an expression, it is read as it stands
 */
async function linkSources(db: Db, sources: readonly Source[]): Promise<Source[]> {
  const tables = listTables(sources)
  const linked: Source[] = []
  for (const opened of sources) {
    const source = withSharedStamp(opened, sources)
    const whole = linkSource(source, tables)
    const error = whole.ownWrites === undefined ? null : await tryQuery(db, inputsProbeSql(whole))
    if (error !== null && !isStatementError(error)) throw error
    linked.push(error === null ? whole : linkSource(source, tables, { elsewhere: false }))
  }
  return linked
}

/** SQLSTATE class 42: a name that means nothing in the changed expression, as `schema.table.column`. */
const isStatementError = (error: unknown): boolean =>
  (error as { code?: string } | null)?.code?.startsWith('42') ?? false

/** Sources with the same keys: a stamp that one of them has set does not mean that another program has enriched the row. */
function withSharedStamp(source: Source, sources: readonly Source[]): Source {
  const { freshness } = source
  const nameOf = (other: Source): string =>
    JSON.stringify([other.table.sql, other.freshness?.cell?.column, other.keyColumns.map(({ name }) => name)])
  const sharing = sources.filter((other) => other.name !== source.name && nameOf(other) === nameOf(source))
  if (freshness === null || sharing.length === 0) return source
  return { ...source, freshness: { ...freshness, sharedWith: sharing.map(({ name }) => name) } }
}

/** A table that Fillrate writes to. */
interface WrittenTable {
  readonly table: Table
  readonly writers: readonly Writer[]
}

const isTableOf =
  ({ table }: Source) =>
  (other: WrittenTable): boolean =>
    other.table.sql === table.sql

function listTables(sources: readonly Source[]): WrittenTable[] {
  const tables = new Map(sources.map(({ table }) => [table.sql, table]))
  return [...tables.values()].map((table) => {
    const on = sources.filter((source) => source.table.sql === table.sql)
    const names = namesOf(sources.flatMap((source) => listReadByInputs(source, table)))
    const covered = new Set(
      on.flatMap(({ outputs, touches }) => [...outputs, ...touches]).map((cell) => cell.attribute),
    )
    const derived = table.columns.filter(
      (column) =>
        names.has(column.name) &&
        !covered.has(column.name) &&
        column.canSelect &&
        (column.isGenerated || table.hasUpdateTriggers),
    )
    const writers = on
      .map((source) => withStamps(source, toWriter(source, names, derived)))
      .filter(({ cells }) => cells.length > 0)
    return { table, writers }
  })
}

function toWriter(
  { name, keyColumns, outputs, touches }: Source,
  read: ReadonlySet<string>,
  derived: readonly Column[],
): Writer {
  if (outputs.length === 0) return { source: name, keyColumns, cells: [] }
  const cells: WrittenCell[] = [
    ...outputs.map((output) => ({ ...output, isOutput: true, isFilled: output.mapping.policy === 'blank' })),
    ...touches.map((touch) => ({
      ...touch,
      fit: touch.path.length > 0 ? ({ kind: 'jsonb' } as const) : touch.type.fit,
      isOutput: false,
      isFilled: false,
    })),
    ...derived.map(({ name: column, type }) => ({
      column,
      attribute: column,
      path: [],
      type,
      fit: type.fit,
      isOutput: false,
      isFilled: false,
    })),
  ]
  return { source: name, keyColumns, cells: cells.filter((cell) => read.has(cell.attribute)) }
}

const namesOf = (columns: readonly Column[]): ReadonlySet<string> => new Set(columns.map(({ name }) => name))

/** The source as a writer of what its own `where` reads. */
const toWhereWriter = (source: Source): Writer =>
  toWriter(source, namesOf(findNamedColumns(toWhereText(source.mapping), source.table)), [])

/** Records the touched columns that `where` reads too: a stamp makes a row leave its source. */
function withStamps(source: Source, writer: Writer): Writer {
  const known = new Set(writer.cells.map((cell) => cell.column))
  const stamps = toWhereWriter(source).cells.filter((cell) => !cell.isOutput && !known.has(cell.column))
  return { ...writer, cells: [...writer.cells, ...stamps] }
}

/** The columns of a table that a source's inputs may read, as rows of its own or by a join or a sub-select. */
const listReadByInputs = (source: Source, table: Table): readonly Column[] => [
  ...(source.table.sql === table.sql ? listOwnColumns(source) : []),
  ...listColumnsElsewhere(source, table),
]

const listOwnColumns = ({ mapping, table }: Source): Column[] =>
  listTexts(mapping).flatMap((text) => findNamedColumns(text, table))

function listColumnsElsewhere({ mapping }: Source, table: Table): readonly Column[] {
  const texts = listTexts(mapping)
  const reads = (text: string): boolean =>
    replaceTable(text, table, '', { isJoins: text === mapping.joins }) !== null
  return texts.some(reads) ? listNamedColumns(texts, mapping, table) : []
}

const PLACE = '(~place~)'
const PLACE_WITH_ALIAS = /\(~place~\)\s+(?:as\s+)?("(?:[^"]|"")*"|[\w$]+)/gi

/**
 * A table with the columns that a source may name: of another one, a column that is dropped must not concern it. All columns
 * where it reads whole rows.
 */
function toNamedRow({ mapping, outputs, touches }: Source, table: Table): Table {
  const texts = [
    ...listTexts(mapping),
    ...mapping.where,
    ...outputs.map((output) => output.mapping.sql ?? ''),
    ...touches.map((touch) => touch.expression),
  ]
  return { ...table, columns: listNamedColumns(texts, mapping, table) }
}

/** The columns of a table that some texts of a source name, by whatever alias: one too many costs little. */
function listNamedColumns(
  texts: readonly string[],
  mapping: Pick<SourceMapping, 'joins'>,
  table: Table,
): readonly Column[] {
  const aliases = new Set<string | null>()
  const readers = texts.map((text) =>
    (replaceTable(text, table, PLACE, { isJoins: text === mapping.joins }) ?? text).replaceAll(
      PLACE_WITH_ALIAS,
      (_, alias: string) => {
        aliases.add(nameIn(tokenizeCode(alias)[0]))
        return ' '
      },
    ),
  )
  const words = new Set<string | null>()
  for (const reader of readers) {
    const tokens = tokenizeCode(reader)
    for (const [at, token] of tokens.entries()) {
      const name = nameIn(token)
      const before = nameIn(tokens[at - 1]) ?? tokens[at - 1]?.text
      const isStar = token.text === '*' && ['.', ',', 'select', 'all', 'distinct'].includes(before ?? '')
      const isRow = aliases.has(name) && name !== null && before !== '.' && tokens[at + 1]?.text !== '.'
      const isEscaped = token.kind === 'quoted' && !token.text.startsWith('"')
      if (isStar || isRow || isEscaped || name === 'natural') return table.columns
      words.add(name)
    }
  }
  return table.columns.filter((column) => words.has(column.name))
}

const listTexts = ({ inputs, joins }: SourceMapping): string[] => [...Object.values(inputs), joins ?? '']

function linkSource(source: Source, tables: readonly WrittenTable[], { elsewhere = true } = {}): Source {
  const { mapping } = source
  const writers = tables.find(isTableOf(source))?.writers ?? []
  const readFrom = writers.map((writer) => ({
    ...writer,
    cells: writer.cells.filter(isNamedIn(listOwnColumns(source))),
  }))
  const others = elsewhere ? tables.filter(({ writers }) => writers.length > 0) : []
  const replaced = (text: string, options?: { isJoins: boolean }): string =>
    others.reduce(
      (now, { table, writers: by }) =>
        replaceTable(now, table, givenRowsSql(toNamedRow(source, table), by), options) ?? now,
      text,
    )
  const inputs: SourceMapping['inputs'] = Object.fromEntries(
    Object.entries(mapping.inputs).map(([name, text]) => [name, replaced(text)]),
  )
  const joins = mapping.joins === null ? null : replaced(mapping.joins, { isJoins: true })
  const isReplaced =
    joins !== mapping.joins ||
    Object.entries(mapping.inputs).some(([name, text]) => inputs[name as keyof typeof inputs] !== text)
  const joinsAgain =
    joins !== mapping.joins ||
    writers.some(({ cells }) => cells.some(isNamedIn(findNamedColumns(mapping.joins ?? '', source.table))))
  const inputWriters = readFrom.filter(({ cells }) => cells.length > 0)
  const where = toWhereWriter(source)
  const ownWrites: OwnWrites = {
    writers,
    readFrom: inputWriters,
    isInput: inputWriters.length > 0 || isReplaced || joinsAgain,
    inputs,
    joins,
    joinsAgain,
    where,
  }
  return writers.length > 0 || isReplaced || where.cells.length > 0 ? { ...source, ownWrites } : source
}

const isNamedIn =
  (columns: readonly Column[]) =>
  (cell: WrittenCell): boolean =>
    columns.some((column) => column.name === cell.attribute)

/** Words after which FROM's list of tables has ended. */
const END_OF_FROM = new Set(
  'where group order having limit offset fetch for window union intersect except returning select set values'.split(
    ' ',
  ),
)
/** Words that may follow a table and are no alias. */
const NO_ALIAS = new Set([
  ...END_OF_FROM,
  ...'on using join left right inner full cross natural tablesample as'.split(' '),
])

/**
 * Puts a sub-select in the place of a table wherever an SQL text reads it: after FROM, JOIN, or a comma between them. The
 * alias stays; a table without one gets its own name.
 * @param replacement SQL in parentheses
 * @param isJoins the text is what follows a table in FROM
 * @returns null if the text does not read the table
 */
export function replaceTable(
  text: string,
  table: Pick<Table, 'schema' | 'name' | 'isVisible'>,
  replacement: string,
  { isJoins = false } = {},
): string | null {
  const code = tokenizeCode(text)
  // An unqualified name may be that of a common table expression.
  const isNamed = (parts: readonly string[]): boolean =>
    parts.at(-1) === table.name &&
    (parts.length === 1
      ? table.isVisible && !code.some((token) => nameIn(token) === 'with')
      : parts.at(-2) === table.schema)
  const depths: { isFrom: boolean }[] = [{ isFrom: isJoins }]
  const pieces: string[] = []
  let copied = 0
  let expectsTable = false
  for (let i = 0; i < code.length; i++) {
    const token = code[i] as Token
    const depth = depths.at(-1) ?? { isFrom: false }
    const word = token.kind === 'word' ? token.text.toLowerCase() : null
    if (token.text === '(') {
      depths.push({ isFrom: expectsTable })
      continue
    }
    if (token.text === ')') depths.pop()
    if (word === 'from' || word === 'join' || (token.text === ',' && depth.isFrom)) {
      if (word === 'from') depth.isFrom = true
      expectsTable = true
      continue
    }
    if (word !== null && END_OF_FROM.has(word)) depth.isFrom = false
    if (word === 'lateral') continue
    if (expectsTable && nameIn(token) !== null) {
      const first = i
      while (code[i + 1]?.text === '.' && nameIn(code[i + 2]) !== null) i += 2
      const parts = code.slice(first, i + 1).flatMap((part) => nameIn(part) ?? [])
      const next = code[i + 1]
      if (isNamed(parts) && next?.text !== '(' && next?.text.toLowerCase() !== 'tablesample') {
        const last = code[i] as Token
        pieces.push(
          text.slice(copied, token.start),
          replacement,
          hasAlias(next) ? '' : ` as ${quoteName(table.name)}`,
        )
        copied = last.start + last.text.length
      }
    }
    expectsTable = false
  }
  return copied === 0 ? null : pieces.join('') + text.slice(copied)
}

const hasAlias = (next: Token | undefined): boolean =>
  next?.kind === 'quoted' ||
  (next?.kind === 'word' && (next.text.toLowerCase() === 'as' || !NO_ALIAS.has(next.text.toLowerCase())))
