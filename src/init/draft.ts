import { parseConfig } from '../config/parse.ts'
import type { Table } from '../sources/catalogue.ts'
import { grantStatements } from '../sources/problems.ts'
import { quoteIfNeeded } from '../sources/quote.ts'
import { resolveSource } from '../sources/source.ts'
import type { Database } from '../store/open.ts'
import type { Cell } from './cells.ts'
import { type Labels, type Reason, decideConditions, listReasons, mayBeReason } from './conditions.ts'
import {
  type DatabaseTables,
  type ListedTable,
  type TableReference,
  chooseKey,
  listAllowedLabels,
} from './database-tables.ts'
import { countLabels, toLabelSql } from './measure.ts'
import { isLogName, splitWords } from './names.ts'
import { listUnreadColumns } from './privileges.ts'
import type { ProposedSource } from './proposal.ts'
import { type Identified, findOutputs } from './recognize.ts'

/** A table whose rows were sampled. */
export interface SampledTable extends ListedTable {
  readonly table: Table
  readonly cells: readonly Cell[]
  /** The number of rows; null: they could not be read in time. */
  readonly sampled: number | null
}

const NO_LABELS: Labels = new Map()

/**
 * Measures a table of people or companies and the tables that hang on it, and decides what its source is.
 * @param others the tables that are no sources of their own
 */
export async function draftSource(
  db: Database,
  database: DatabaseTables,
  sampled: SampledTable,
  { name, kind, inputs }: Identified & { readonly name: string },
  others: readonly SampledTable[],
): Promise<ProposedSource> {
  const { table, sqlName } = sampled
  const cells = withoutKeys(database, sampled)
  const measured = cells.filter(mayBeReason)
  const labels = measured.map((cell) => toLabelSql(cell))
  const counts = await countLabels(db, `${table.sql} as t`, sampled.rows, labels)
  const countedLabels = (cell: Cell): Labels => counts?.labels[measured.indexOf(cell)] ?? NO_LABELS
  const inputCells = inputs.flatMap((input) => input.cells)
  const outputs = findOutputs(cells, {
    kind,
    inputs: inputCells,
    countedLabels,
    allowedLabels: ({ path, column }) =>
      path.length > 0 ? [] : listAllowedLabels(database, sqlName, column),
  })
  const used = new Set([...inputCells, ...outputs.map(({ cell }) => cell)])
  const reasons = measured.flatMap((cell) =>
    used.has(cell) ? [] : listReasons(cell, countedLabels(cell), counts?.rows ?? 0),
  )
  const hanging = counts === null ? [] : await readHanging(db, database, sampled, others)
  return verifySource(db, database, sampled, {
    name,
    kind,
    table: sqlName,
    key: chooseKey(table),
    inputs: inputs.map(({ input, sql, usable }) => ({ input, sql, usable })),
    outputs: outputs.map(({ cell: _cell, ...output }) => output),
    conditions: counts === null ? [] : decideConditions(counts.rows, [...reasons, ...hanging]),
    counted: counts && { rows: counts.rows, of: counts.of },
    grants: [],
  })
}

/** The cells that are neither a key nor refer to another table. */
function withoutKeys({ references }: DatabaseTables, { sqlName, table, cells }: SampledTable): Cell[] {
  const referring = references.filter(({ from }) => from === sqlName).map(({ column }) => column)
  const keys = new Set([...chooseKey(table), ...referring])
  return cells.filter(({ column }) => !keys.has(column.name))
}

/** What tables say whose rows belong to one of the source by a declared key: `contact_consents (contact_id, withdrawn_at)`. */
async function readHanging(
  db: Database,
  database: DatabaseTables,
  { name, sqlName }: SampledTable,
  others: readonly SampledTable[],
): Promise<Reason[]> {
  const found: Reason[] = []
  for (const reference of database.references.filter(({ to }) => to === sqlName)) {
    const child = others.find((one) => one.sqlName === reference.from)
    if (child === undefined || isLogName(child.name) || !belongs(reference, child.table, name)) continue
    const cells = withoutKeys(database, child).filter((cell) => cell.path.length === 0 && mayBeReason(cell))
    const labels = cells.map((cell) => toLabelSql(cell, 'x'))
    const own = `x.${quoteIfNeeded(reference.column)}`
    const counts = await countLabels(
      db,
      `${child.sqlName} as x`,
      child.rows,
      labels,
      `count(distinct ${own})`,
    )
    const reasons = cells.flatMap((cell, n) =>
      listReasons(cell, counts?.labels[n] ?? NO_LABELS, counts?.rows ?? 0, 'x'),
    )
    for (const { leave, leaves } of reasons.filter((reason) => reason.leaves > 0)) {
      const keep = `not exists (select from ${child.sqlName} x where ${own} = t.${quoteIfNeeded(reference.target)} and ${leave})`
      // Whether an objection in another table is about the whole row, only a person knows.
      found.push({ leave, keep, leaves, isNamed: false })
    }
  }
  return found
}

/** Whether a row belongs to the one that it refers to, as by `contact_id`, and was not only made by it, as by `created_by_id`. */
function belongs({ column }: TableReference, { primaryKey }: Table, parent: string): boolean {
  const words = splitWords(column).filter((word) => word !== 'id')
  const isPart = primaryKey.length === 1 && primaryKey[0] === column
  return isPart || (words.length > 0 && words.every((word) => parent.toLowerCase().includes(word)))
}

/**
 * Checks a source against the database as every other command does. An output that fails is left out; one that a grant would solve
 * stays, with the grant.
 */
async function verifySource(
  db: Database,
  { role }: DatabaseTables,
  sampled: SampledTable,
  source: ProposedSource,
): Promise<ProposedSource> {
  if (source.outputs.length === 0) return source
  const { sources } = parseConfig({ sources: { [source.name]: toSourceConfig(source) } }, null)
  const [mapping] = Object.values(sources)
  const { problems } = mapping === undefined ? { problems: [] } : await resolveSource(db, mapping)
  const grants = problems.flatMap(({ grant }) => (grant === undefined ? [] : [grant]))
  const failed = problems.filter(({ grant }) => grant === undefined).map(({ place }) => `${place}.`)
  return {
    ...source,
    outputs: source.outputs.filter(
      ({ column }) => !failed.some((place) => place.startsWith(`outputs.${column}.`)),
    ),
    grants: grantStatements([...listUnreadColumns(role, sampled), ...grants]),
  }
}

/** A source as an entry of a configuration, as if a person had read it. */
const toSourceConfig = ({ kind, table, key, conditions, inputs, outputs }: ProposedSource): object => ({
  kind,
  table,
  key,
  where: conditions.filter(({ state }) => state === 'active').map(({ keep }) => keep),
  inputs: Object.fromEntries(inputs.map(({ input, sql }) => [input, sql])),
  outputs: Object.fromEntries(
    outputs.map(({ column, field, map }) => [column, map === null ? field : { field, map }]),
  ),
})
