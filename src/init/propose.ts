import type { Db } from '../sources/db.ts'
import { draftSources } from './drafts.ts'
import { listCandidateFields } from './fields.ts'
import { chooseInputs, measureInputs } from './inputs.ts'
import type { Proposal, ProposedSource, SkippedTable } from './proposal.ts'
import { confirmRelations, declaredRelations, suggestedRelations } from './relations.ts'
import {
  type IntrospectedTable,
  type TableOverview,
  introspectTable,
  listForeignKeys,
  listTableOverviews,
  sampleTableRows,
} from './introspect.ts'
import { type ClassifiedSchema, classifyTables, shortlistTables } from './classify.ts'
import { ConfigProblems } from '../config/problems.ts'
import { listTables } from '../sources/catalogue.ts'
import { didYouMean } from '../util/text.ts'
import { parseTableName } from '../sources/quote.ts'
import type { Database } from '../store/open.ts'
import { inTransaction } from '../store/transaction.ts'

/** Runs reads in one short transaction with a statement timeout; a longer statement fails with 57014. */
export type ReadTransaction = <Result>(act: (db: Db) => Promise<Result>, timeoutMs: number) => Promise<Result>

export interface TableName {
  readonly schema: string
  readonly name: string
}

export interface ProposeOptions {
  /** Selects the tables to consider, however weak the evidence. Null: all. */
  readonly wanted: ((table: TableName) => boolean) | null
  /** Called before a table's rows are read. */
  readonly onTable?: (table: TableName, n: number, of: number) => void
}

/** The catalogue answers in milliseconds; so does a row sample, unless storage is slow. */
const CATALOGUE_TIMEOUT_MS = 30_000
const ROWS_TIMEOUT_MS = 5_000

/**
 * Proposes sources for a database. Reads its catalogue and at most 200 rows of each table that may hold people or
 * companies. Writes nothing and keeps no value.
 */
export async function proposeSources(
  read: ReadTransaction,
  { wanted, onTable }: ProposeOptions,
): Promise<Proposal> {
  const all = await read(listTableOverviews, CATALOGUE_TIMEOUT_MS)
  const references = await read(listForeignKeys, CATALOGUE_TIMEOUT_MS)
  const likely = shortlistTables(all)
  const named = wanted === null ? [] : all.filter((one) => wanted(one) && !likely.includes(one))
  const tables: IntrospectedTable[] = []
  for (const [n, one] of [...likely, ...named].entries()) {
    onTable?.(one, n + 1, likely.length + named.length)
    const surveyed = await introspectWithSample(read, one)
    if (surveyed) tables.push(surveyed)
  }
  const declared = declaredRelations(tables, references)
  const suggested = suggestedRelations(tables, declared)
  const confirmed = await withTimeoutFallback(read, (db) => confirmRelations(db, suggested), [])
  const isWanted = ({ table }: IntrospectedTable): boolean => wanted === null || wanted(table)
  const schema = classifyTables(tables, [...declared, ...confirmed], wanted === null ? () => false : isWanted)

  const sources: ProposedSource[] = []
  const skippedTables: SkippedTable[] = []
  for (const draft of draftSources(schema)) {
    if (!isWanted(draft.table)) continue
    const rows = await withTimeoutFallback(read, (db) => measureInputs(db, draft), [])
    const source = chooseInputs(draft, rows)
    if (typeof source === 'string') skippedTables.push({ table: draft.base.table, reason: source })
    else sources.push(source)
  }
  const nearest = listRejections(schema, isWanted, {
    doubtful: sources.length === 0 && skippedTables.length === 0,
  })
  return {
    sources,
    skippedTables: [...skippedTables, ...nearest],
    examined: { tables: all.length, schemas: [...new Set(all.map((one) => one.schema))] },
  }
}

async function introspectWithSample(
  read: ReadTransaction,
  overview: TableOverview,
): Promise<IntrospectedTable | null> {
  const surveyed = await read((db) => introspectTable(db, overview), CATALOGUE_TIMEOUT_MS)
  if (surveyed === null) return null
  const { table } = surveyed
  const isReadable = table.kind === 'table'
  const rows = isReadable
    ? await withTimeoutFallback(read, (db) => sampleTableRows(db, table, surveyed.rows), [])
    : []
  return { ...surveyed, fields: listCandidateFields(table, rows) }
}

const listRejections = (
  schema: ClassifiedSchema,
  isWanted: (table: IntrospectedTable) => boolean,
  { doubtful }: { readonly doubtful: boolean },
): SkippedTable[] =>
  schema.tables.flatMap((one) =>
    one.rejection === null || !isWanted(one) || (one.isUncertain && !doubtful)
      ? []
      : [{ table: one.sqlName, reason: one.rejection }],
  )

/** Continues without rows that take too long or may not be read: names are still evidence. */
async function withTimeoutFallback<Result>(
  read: ReadTransaction,
  act: (db: Db) => Promise<Result>,
  without: Result,
): Promise<Result> {
  try {
    return await read(act, ROWS_TIMEOUT_MS)
  } catch (error) {
    const { code = '' } = error as { code?: string }
    if (code === '57014' || /^(?:42|22)/.test(code)) return without
    throw error
  }
}

/**
 * Proposes sources for the named tables, or for all tables if none is named.
 * @param onTable called before a table's rows are read
 * @throws ConfigProblems if a named table does not exist
 */
export async function proposeForTables(
  db: Database,
  names: readonly string[],
  onTable: NonNullable<ProposeOptions['onTable']>,
): Promise<Proposal> {
  const named = names.map((word) => ({ word, ...parseTableName(word) }))
  const isNamed = (name: (typeof named)[number], table: TableName): boolean =>
    name.table === table.name && (name.schema === null || name.schema === table.schema)
  if (named.length > 0) {
    const tables = (await listTables(db)).map(({ schema, table }) => ({ schema, name: table }))
    const missing = named.find((name) => !tables.some((table) => isNamed(name, table)))
    if (missing) throw noSuchTableProblem(missing.word, tables)
  }
  return proposeSources((act, timeoutMs) => inTransaction(db, act, timeoutMs), {
    wanted: named.length === 0 ? null : (table) => named.some((name) => isNamed(name, table)),
    onTable,
  })
}

function noSuchTableProblem(word: string, tables: readonly TableName[]): ConfigProblems {
  const names = tables.map((table) => (word.includes('.') ? `${table.schema}.${table.name}` : table.name))
  return new ConfigProblems('the command', [
    {
      place: word,
      found: 'no such table in this database',
      expected: 'an existing table, such as crm.contacts',
      todo: didYouMean(word, names) ?? 'Omit the name to examine all tables.',
    },
  ])
}
