import type pg from 'pg'
import type { InputName, SourceMapping } from '../../../src/domain/mapping.ts'
import { fieldOf, rightOutputs, type ExpectedSource, type SchemaExpectation } from './expectation.ts'
import { joinConditions } from '../../../src/init/questions.ts'
import type { ProposedMapping } from './propose.ts'
import { canonicalInput, readExpectedRows, type ExpectedRow } from './rows.ts'

/** Of what is expected, how much was found; and what was proposed and is wrong. */
export interface Tally {
  expected: number
  found: number
  readonly missed: string[]
  readonly wrong: string[]
}

/** Some rows of all. */
interface Share {
  rows: number
  of: number
}

export interface InitScore {
  readonly inputs: Tally
  readonly outputs: Tally
  readonly filters: Tally
  /** Rows that must be left out, and that a file confirmed unread would look up. */
  readonly harmed: Share
  /** Those of them that are looked up after the questions were answered, too. */
  readonly overlooked: Share
  /** Rows that belong in it, and wait for an answer. */
  readonly waiting: Share
}

/** An input that reaches this share of the rows that it should reach is found. */
const REACH: Readonly<Record<InputName, number>> = {
  email: 0.95,
  linkedin_url: 0.95,
  domain: 0.8,
  name: 0.7,
  company: 0.7,
}

/**
 * Holds proposed sources against an expectation. Inputs and filters are compared by the rows and values that they
 * yield, not by their text. What is commented out in the file is no part of the proposal: neither found nor wrong. Its
 * questions are answered as somebody does who knows the rows: they are left out if more than three of four must be, of those
 * that either must be or belong in it.
 */
export async function scoreProposal(
  pool: pg.Pool,
  { sources }: SchemaExpectation,
  proposed: readonly ProposedMapping[],
): Promise<InitScore> {
  const tally = (): Tally => ({ expected: 0, found: 0, missed: [], wrong: [] })
  const share = (): Share => ({ rows: 0, of: 0 })
  const score: InitScore = {
    inputs: tally(),
    outputs: tally(),
    filters: tally(),
    harmed: share(),
    overlooked: share(),
    waiting: share(),
  }
  for (const source of sources) {
    const found = proposed.find((one) => isSame(source, one))
    if (found) await scoreSource(pool, source, found, score)
    else if (source.isOptional !== true) countMissing(source, score)
  }
  for (const { name, kind, outputs, inputs, table, isDoubted } of proposed) {
    // A person who knows the tables leaves it.
    if (isDoubted === true) continue
    if (sources.some((source) => isSame(source, { kind, table }))) continue
    const place = `${name} (${kind})`
    score.inputs.wrong.push(...Object.keys(inputs).map((input) => `${place}.${input}: no such source`))
    score.outputs.wrong.push(...outputs.map(({ column }) => `${place}.${column}: no such source`))
  }
  return score
}

const plainTable = (table: string): string => table.replaceAll('"', '').replace(/^public\./, '')

const isSame = (
  source: Pick<ExpectedSource, 'kind' | 'table'>,
  one: Pick<SourceMapping, 'kind' | 'table'>,
): boolean => source.kind === one.kind && plainTable(source.table) === plainTable(one.table)

function countMissing(source: ExpectedSource, score: InitScore): void {
  const count = (tally: Tally, names: readonly string[]): void => {
    tally.expected += names.length
    tally.missed.push(...names.map((name) => `${source.table} (${source.kind}).${name}: no source`))
  }
  count(score.inputs, Object.keys(source.inputs))
  count(score.outputs, Object.keys(source.outputs))
  count(score.filters, [
    ...Object.keys(source.excluded),
    ...(source.freshness === undefined ? [] : ['freshness']),
  ])
}

async function scoreSource(
  pool: pg.Pool,
  source: ExpectedSource,
  proposed: ProposedMapping,
  score: InitScore,
): Promise<void> {
  const place = `${source.table} (${source.kind})`
  const note = (tally: Tally, name: string, isFound: boolean): void => {
    if (source.isOptional === true) return
    tally.expected++
    if (isFound) tally.found++
    else tally.missed.push(`${place}.${name}`)
  }
  const rows = await readExpectedRows(pool, source)
  const unread = proposed.isDoubted === true ? new Map() : await readProposedRows(pool, proposed)
  const answered = { ...proposed, where: await answer(pool, proposed, rows) }
  const reached = await readProposedRows(pool, answered)
  const mustNot = [...rows].filter(([, row]) => row.excludedBy.length > 0)
  score.harmed.of += mustNot.length
  score.harmed.rows += mustNot.filter(([id]) => unread.has(id)).length
  score.overlooked.of += mustNot.length
  score.overlooked.rows += mustNot.filter(([id]) => reached.has(id)).length

  for (const input of new Set([
    ...Object.keys(source.inputs),
    ...Object.keys(proposed.inputs),
  ]) as Set<InputName>) {
    const { share, wrong } = compareInput(input, rows, reached)
    if (source.inputs[input] !== undefined)
      note(score.inputs, input, proposed.inputs[input] !== undefined && share >= REACH[input])
    if (wrong !== null) score.inputs.wrong.push(`${place}.${input}: ${wrong}`)
  }

  const right = rightOutputs(source)
  for (const [column, output] of Object.entries(source.outputs))
    note(
      score.outputs,
      column,
      proposed.outputs.some((one) => one.column === column && one.field === fieldOf(output)),
    )
  for (const { column, field } of proposed.outputs) {
    const output = right[column]
    if (output === undefined) score.outputs.wrong.push(`${place}.${column}: not to be filled with ${field}`)
    else if (fieldOf(output) !== field)
      score.outputs.wrong.push(`${place}.${column}: ${field} in place of ${fieldOf(output)}`)
  }

  for (const reason of Object.keys(source.excluded))
    note(score.filters, reason, ![...reached.keys()].some((id) => rows.get(id)?.excludedBy.includes(reason)))
  const belonging = [...rows].filter(([, row]) => row.excludedBy.length === 0 && !row.mayExclude)
  const lost = belonging.filter(([id]) => !reached.has(id))
  score.waiting.of += belonging.length
  score.waiting.rows += belonging.filter(([id]) => !unread.has(id) && reached.has(id)).length
  if (lost.length > 0) score.filters.wrong.push(`${place}: leaves out ${lost.length} rows that belong in it`)
  const freshness = proposed.freshness?.column
  if (source.freshness !== undefined) note(score.filters, 'freshness', freshness === source.freshness)
  if (freshness !== undefined && freshness !== source.freshness)
    score.filters.wrong.push(`${place}: ${freshness} is no stamp of enrichment`)
}

type ProposedInputs = Readonly<Partial<Record<InputName, string | null>>>

/** Canonical inputs of the rows that a proposed source reads. */
async function readProposedRows(pool: pg.Pool, source: SourceMapping): Promise<Map<string, ProposedInputs>> {
  const inputs = Object.entries(source.inputs) as Array<[InputName, string]>
  const { rows } = await pool.query<{ id: string; inputs: Array<string | null> }>(
    `select t.ctid::text as id, array[${inputs.map(([, sql]) => `(${sql})::text`).join(', ')}]::text[] as inputs
       from ${source.table} t ${source.joins ?? ''} ${source.where === null ? '' : `where ${source.where}`}`,
  )
  return new Map(
    rows.map((row) => [
      row.id,
      Object.fromEntries(inputs.map(([name], n) => [name, canonicalInput(name, row.inputs[n] ?? null)])),
    ]),
  )
}

/** The condition of a source whose questions are answered by what is expected of the rows. */
async function answer(
  pool: pg.Pool,
  { questions = [], certain = null, ...source }: ProposedMapping,
  expected: ReadonlyMap<string, ExpectedRow>,
): Promise<string | null> {
  if (questions.length === 0) return source.where
  const { rows } = await pool.query<{ id: string; out: boolean[] }>(
    `select t.ctid::text as id, array[${questions.map(({ keep }) => `(${keep}) is not true`).join(', ')}] as out
       from ${source.table} t ${source.joins ?? ''} ${certain === null ? '' : `where ${certain}`}`,
  )
  const count = (n: number, among: typeof rows): { excluded: number; belonging: number } => {
    const about = among.flatMap(({ id, out }) => (out[n] === true ? [expected.get(id)] : []))
    return {
      excluded: about.filter((row) => row !== undefined && row.excludedBy.length > 0).length,
      belonging: about.filter((row) => row?.excludedBy.length === 0 && !row.mayExclude).length,
    }
  }
  // The clearest first: what another choice leaves out already says nothing of this one.
  const clearest = questions
    .map((question, n) => ({ question, n, ...count(n, rows) }))
    .toSorted((a, b) => a.belonging * b.excluded - b.belonging * a.excluded || b.excluded - a.excluded)
  let left = rows
  const chosen = clearest.flatMap(({ question, n }) => {
    const { excluded, belonging } = count(n, left)
    if (excluded <= belonging * 3) return []
    left = left.filter(({ out }) => out[n] !== true)
    return [question]
  })
  return joinConditions([certain, ...chosen.map(({ keep }) => `(${keep})`)])
}

function compareInput(
  input: InputName,
  rows: ReadonlyMap<string, ExpectedRow>,
  reached: ReadonlyMap<string, ProposedInputs>,
): { share: number; wrong: string | null } {
  let should = 0
  let does = 0
  const wrong: string[] = []
  for (const [id, row] of rows) {
    if (row.excludedBy.length > 0) continue
    const right = row.inputs[input] ?? []
    const isLeftOut = row.mayExclude && !reached.has(id)
    if (right[0] != null && !isLeftOut) should++
    const value = reached.get(id)?.[input] ?? null
    if (value === null) continue
    if (!right.includes(value)) wrong.push(value)
    else if (right[0] != null) does++
  }
  return {
    share: should === 0 ? 0 : does / should,
    wrong: wrong.length === 0 ? null : `${wrong.length} rows have another's value`,
  }
}
