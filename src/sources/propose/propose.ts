import type { Db } from '../db.ts'
import { draftsOf } from './drafts.ts'
import { fieldsOf } from './field.ts'
import { measure } from './measure.ts'
import type { PassedOver, Proposal, ProposedSource } from './proposal.ts'
import { confirmRelations, declaredRelations, suggestedRelations } from './relations.ts'
import { readSample } from './sample.ts'
import { settle } from './settle.ts'
import { shortlist } from './shortlist.ts'
import { readOverview, readReferences, surveyTable, type Overview, type Surveyed } from './survey.ts'
import { judge, type World } from './world.ts'

/** Runs reads in one short transaction with a bound on each statement; what takes longer fails with 57014. */
export type Read = <Result>(act: (db: Db) => Promise<Result>, timeoutMs: number) => Promise<Result>

export interface TableName {
  readonly schema: string
  readonly name: string
}

export interface ProposeOptions {
  /** Which tables are wanted: each is looked at, however little it looks like one of people or companies. Null: all. */
  readonly wanted: ((table: TableName) => boolean) | null
  /** Told of each table before its rows are looked at. */
  readonly onTable?: (table: TableName, n: number, of: number) => void
}

/** The catalogue answers in milliseconds; some rows of a table in as many, unless its storage is slow. */
const CATALOGUE_MS = 30_000
const ROWS_MS = 5_000

/**
 * Proposes sources for what a database holds: reads its catalogue and at most 200 rows of each table that may hold people
 * or companies. Writes nothing, and keeps no value that it read.
 */
export async function propose(read: Read, { wanted, onTable }: ProposeOptions): Promise<Proposal> {
  const all = await read(readOverview, CATALOGUE_MS)
  const references = await read(readReferences, CATALOGUE_MS)
  const likely = shortlist(all)
  const named = wanted === null ? [] : all.filter((one) => wanted(one) && !likely.includes(one))
  const tables: Surveyed[] = []
  for (const [n, one] of [...likely, ...named].entries()) {
    onTable?.(one, n + 1, likely.length + named.length)
    const surveyed = await surveyWithRows(read, one)
    if (surveyed) tables.push(surveyed)
  }
  const declared = declaredRelations(tables, references)
  const suggested = suggestedRelations(tables, declared)
  const confirmed = await patiently(read, (db) => confirmRelations(db, suggested), [])
  const isWanted = ({ table }: Surveyed): boolean => wanted === null || wanted(table)
  const world = judge(tables, [...declared, ...confirmed], wanted === null ? () => false : isWanted)

  const sources: ProposedSource[] = []
  const passedOver: PassedOver[] = []
  for (const draft of draftsOf(world)) {
    if (!isWanted(draft.judged)) continue
    const rows = await patiently(read, (db) => measure(db, draft), [])
    const settled = settle(draft, rows)
    if (typeof settled === 'string') passedOver.push({ table: draft.base.table, why: settled })
    else sources.push(settled)
  }
  const nearest = objections(world, isWanted, { doubtful: sources.length === 0 && passedOver.length === 0 })
  return {
    sources,
    passedOver: [...passedOver, ...nearest],
    looked: { tables: all.length, schemas: [...new Set(all.map((one) => one.schema))] },
  }
}

async function surveyWithRows(read: Read, overview: Overview): Promise<Surveyed | null> {
  const surveyed = await read((db) => surveyTable(db, overview), CATALOGUE_MS)
  if (surveyed === null) return null
  const { table } = surveyed
  const isReadable = table.kind === 'table'
  const rows = isReadable ? await patiently(read, (db) => readSample(db, table, surveyed.rows), []) : []
  return { ...surveyed, fields: fieldsOf(table, rows) }
}

const objections = (
  world: World,
  isWanted: (table: Surveyed) => boolean,
  { doubtful }: { readonly doubtful: boolean },
): PassedOver[] =>
  world.tables.flatMap((one) =>
    one.objection === null || !isWanted(one) || (one.isDoubtful && !doubtful)
      ? []
      : [{ table: one.inSql, why: one.objection }],
  )

/** Rows that take too long to read, or may not be read, are done without: the names still say something. */
async function patiently<Result>(
  read: Read,
  act: (db: Db) => Promise<Result>,
  without: Result,
): Promise<Result> {
  try {
    return await read(act, ROWS_MS)
  } catch (error) {
    const { code = '' } = error as { code?: string }
    if (code === '57014' || /^(?:42|22)/.test(code)) return without
    throw error
  }
}
